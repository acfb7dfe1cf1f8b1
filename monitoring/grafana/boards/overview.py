"""The state of the crawl on one screen, with links to the other dashboards."""

from board import dashboard, of_all_services
from panel import linked
from panels import crawl, frontier, kafka, process, requests, work


def overview():
    return dashboard(
        "overview",
        "The state of the crawl on one screen.",
        [
            (
                "The crawl",
                [
                    linked(crawl.pages_now(), "crawl", "One crawl"),
                    linked(crawl.waiting_now(), "frontier", "The frontier"),
                    linked(crawl.in_flight_now(), "fetcher", "The fetcher"),
                    linked(crawl.blocked_now(), "politeness", "Politeness"),
                    linked(crawl.not_ready_now(), "services", "All services"),
                    linked(crawl.complete_now(), "kafka", "Kafka"),
                    linked(crawl.pages_and_documents(), "extractor", "The extractor"),
                    linked(frontier.waiting_and_leased(), "frontier", "The frontier"),
                    linked(crawl.ready_sites(), "politeness", "Politeness"),
                    linked(requests.by_result(), "fetcher", "The fetcher"),
                    linked(work.records_in(), "services", "All services"),
                    linked(work.lag(), "kafka", "Kafka"),
                    linked(work.stalled(), "services", "All services"),
                    linked(kafka.dead_letters(), "kafka", "Kafka"),
                    linked(process.up_and_ready(), "services", "All services"),
                ],
            )
        ],
        of_all_services(),
        line_height=6,
        as_menu=False,
    )
