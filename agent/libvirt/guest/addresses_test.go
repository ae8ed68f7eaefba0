package guest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/internal/fleet"
)

func domainInterface(mac string, ips ...string) golibvirt.DomainInterface {
	c := golibvirt.DomainInterface{Hwaddr: []string{mac}}
	for _, ip := range ips {
		c.Addrs = append(c.Addrs, golibvirt.DomainIPAddr{Addr: ip})
	}
	return c
}

func TestReportedAddressesAreLimitedPerNIC(t *testing.T) {
	t.Parallel()
	var ips []string
	for i := range 5000 {
		ips = append(ips, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	k := NICAddresses{}
	k.addSource([]golibvirt.DomainInterface{domainInterface("52:54:00:00:00:01", ips...)}, fleet.FromAgent)
	if n := len(k["52:54:00:00:00:01"]); n != maxAddresses {
		t.Errorf("%d addresses are reported", n)
	}
}

func TestGuestAddressesListSources(t *testing.T) {
	t.Parallel()
	k := NICAddresses{}
	k.addSource([]golibvirt.DomainInterface{domainInterface("52:54:00:00:00:0A", "10.0.0.9", "fe80::1", "127.0.0.1", "10.0.0.5"), domainInterface("", "10.9.9.9")}, fleet.FromAgent)
	k.addSource([]golibvirt.DomainInterface{domainInterface("52:54:00:00:00:0a", "10.0.0.5"), {}}, fleet.FromLease)
	k.addSource([]golibvirt.DomainInterface{domainInterface("52:54:00:00:00:0a", "10.0.0.7", "10.0.0.5")}, fleet.FromARP)
	want := []fleet.SeenAddress{
		{IP: "10.0.0.5", By: []fleet.AddressSource{fleet.FromAgent, fleet.FromLease, fleet.FromARP}},
		{IP: "10.0.0.7", By: []fleet.AddressSource{fleet.FromARP}},
		{IP: "10.0.0.9", By: []fleet.AddressSource{fleet.FromAgent}},
	}
	if got := k["52:54:00:00:00:0a"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// An address from ARP stays for a while after the kernel drops it, as long as the guest runs and no other source
// reports its NIC.
func TestARPAddressStaysReportedAfterKernelDropsEntry(t *testing.T) {
	t.Parallel()
	var h arpHistory
	now := time.Unix(1_700_000_000, 0)
	see := func(after time.Duration, by ...fleet.AddressSource) []string {
		now = now.Add(after)
		k := NICAddresses{}
		for _, b := range by {
			k.addAddress("m", map[fleet.AddressSource]string{fleet.FromARP: "10.0.0.7", fleet.FromLease: "10.0.0.8"}[b], b)
		}
		found := map[fleet.VMID]NICAddresses{"vm": k}
		h.addRecent(found, now)
		return IPsOf(found["vm"]["m"])
	}
	for _, c := range []struct {
		after time.Duration
		by    []fleet.AddressSource
		want  []string
	}{
		{0, []fleet.AddressSource{fleet.FromARP}, []string{"10.0.0.7"}},
		{arpMaxAge, nil, []string{"10.0.0.7"}},
		{time.Second, nil, nil},
		{time.Second, []fleet.AddressSource{fleet.FromARP}, []string{"10.0.0.7"}},
		{time.Second, []fleet.AddressSource{fleet.FromLease}, []string{"10.0.0.8"}},
		{time.Second, nil, nil},
	} {
		if got := see(c.after, c.by...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("after %v by %v: %v, want %v", c.after, c.by, got, c.want)
		}
	}
}
