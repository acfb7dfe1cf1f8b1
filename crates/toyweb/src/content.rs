//! Content of a server.

use crate::demo::Demo;
use crate::directory::Directory;
use crate::greedy::Greedy;
use crate::heavy;
use crate::reply::Reply;
use crate::web::{Asked, Web};

/// Content of a server.
#[derive(Debug)]
pub(crate) enum Content {
    Generated(Web),
    Demo(Demo),
    Heavy,
    Greedy(Greedy),
    Directory(Directory),
}

impl Content {
    /// Answers a request.
    pub(crate) async fn answer(&self, asked: &Asked<'_>) -> Reply {
        match self {
            Self::Generated(web) => web.answer(asked),
            Self::Demo(demo) => demo.answer(asked),
            Self::Heavy => heavy::answer(asked.target),
            Self::Greedy(greedy) => greedy.answer(asked),
            Self::Directory(directory) => directory.answer(asked.target).await,
        }
    }
}
