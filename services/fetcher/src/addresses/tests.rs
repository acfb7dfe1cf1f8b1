use super::*;

const A: &str = "https://www.a.example/1";

fn url(url: &str) -> Url {
    url.parse().unwrap()
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Admits the next request of a site whose host has this address.
fn admit_at(addresses: &mut Addresses, site: &str, host: &str, at: IpAddr) -> Admission {
    let (site, target) = (SiteName::from(site), url(&format!("http://{host}/")));
    assert_eq!(addresses.admit(&site, &target, 0), Admission::LookUp(host.into()));
    assert!(addresses.located(&site, host, Ok(Some(at)), 0));
    addresses.admit(&site, &target, 0)
}

#[test]
fn a_host_is_looked_up_once_for_requests_in_quick_succession() {
    let mut addresses = Addresses::new(2, 0);
    let site = SiteName::from("a.example");
    assert_eq!(addresses.admit(&site, &url(A), 0), Admission::LookUp("www.a.example".into()));
    assert_eq!(addresses.admit(&site, &url(A), 5000), Admission::Wait, "for the lookup");
    assert!(!addresses.located(&site, "b.a.example", Ok(None), 5000));
    assert!(addresses.located(&site, "www.a.example", Ok(Some(address(1))), 5000));
    assert!(!addresses.located(&site, "www.a.example", Ok(Some(address(2))), 5000), "the lookup has ended");
    let sent = Admission::Send(Destination::At(address(1)));
    assert_eq!(
        [5000, 5999].map(|now| addresses.admit(&site, &url(A), now)),
        [sent, Admission::Send(Destination::At(address(1)))]
    );
    assert_eq!(addresses.admit(&site, &url(A), 6000), Admission::LookUp("www.a.example".into()));
    addresses.located(&site, "www.a.example", Ok(Some(address(1))), 6000);
    assert_eq!(addresses.admit(&site, &url(A), 6000), Admission::Wait);
    addresses.ended(address(1), &site, false, 90_000);
    assert_eq!(addresses.next_called(90_000), Some(site.clone()));
    // However long a site has waited, its request goes to the address that it has waited for.
    assert_eq!(addresses.admit(&site, &url(A), 90_000), Admission::Send(Destination::At(address(1))));
    addresses.forget(90_000);
    assert!(addresses.sites.is_empty());
}

#[test]
fn a_failed_lookup_ends_the_request_and_the_next_one_is_looked_up_again() {
    let mut addresses = Addresses::new(2, 0);
    let site = SiteName::from("a.example");
    addresses.admit(&site, &url(A), 0);
    addresses.located(&site, "www.a.example", Err(FetchError::Dns), 0);
    assert_eq!(addresses.admit(&site, &url(A), 0), Admission::Send(Destination::Failed(FetchError::Dns)));
    assert_eq!(addresses.admit(&site, &url(A), 0), Admission::LookUp("www.a.example".into()));
    addresses.located(&site, "www.a.example", Ok(None), 0);
    assert_eq!(addresses.admit(&site, &url(A), 0), Admission::Send(Destination::Unlocated));
}

#[test]
fn sites_of_one_address_share_its_bound_whatever_the_spelling() {
    let mut addresses = Addresses::new(2, 0);
    let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(admit_at(&mut addresses, "a", "a.example", address(1)), Admission::Send(Destination::At(address(1))));
    assert_eq!(admit_at(&mut addresses, "b", "b.example", mapped), Admission::Send(Destination::At(mapped)));
    assert_eq!(admit_at(&mut addresses, "c", "c.example", address(1)), Admission::Wait);
    // The host of a URL may be the address itself.
    let literal = SiteName::from("192.0.2.1");
    assert_eq!(addresses.admit(&literal, &url("http://192.0.2.1/"), 0), Admission::Wait);
    let other = Admission::Send(Destination::At(address(2)));
    assert_eq!(addresses.admit(&"192.0.2.2".into(), &url("http://192.0.2.2/"), 0), other);
    assert_eq!((addresses.waiting(), addresses.is_waiting(&literal)), (2, true));
    addresses.ended(address(1), &"a".into(), false, 0);
    assert_eq!(addresses.next_called(0), Some("c".into()));
}

#[test]
fn a_site_whose_next_request_is_to_another_host_gives_its_place_up() {
    let mut addresses = Addresses::new(1, 0);
    admit_at(&mut addresses, "a", "a.example", address(1));
    assert_eq!(admit_at(&mut addresses, "b", "b.example", address(1)), Admission::Wait);
    assert_eq!(admit_at(&mut addresses, "c", "c.example", address(1)), Admission::Wait);
    addresses.ended(address(1), &"a".into(), false, 0);
    assert_eq!(addresses.next_called(0), Some("b".into()));
    let elsewhere = admit_at(&mut addresses, "b", "www.b.example", address(2));
    assert_eq!(elsewhere, Admission::Send(Destination::At(address(2))));
    assert_eq!(addresses.next_called(0), Some("c".into()));
}

#[test]
fn each_fetcher_takes_its_part_of_the_places_and_at_least_one() {
    for (at_once, owned, partitions, part) in
        [(32, 16, 16, 32), (32, 5, 16, 10), (32, 1, 64, 1), (4, 0, 16, 1), (0, 1, 16, usize::MAX)]
    {
        assert_eq!(part_of(at_once, owned, partitions), part);
    }
    // The parts of all fetchers are no more than the bound, unless there are more fetchers than places.
    assert!(part_of(10, 5, 16) + part_of(10, 5, 16) + part_of(10, 6, 16) <= 10);
}
