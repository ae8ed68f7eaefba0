package libvirt

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"quantix/internal/fleet"
)

const (
	addressesAge      = 10 * time.Second
	addressesPatience = 300 * time.Millisecond
	mostAddresses     = 64 // of a card: what a guest says must not swell its host's report beyond what the portal takes

	// The kernel forgets whom it has heard sooner than guests forget their addresses: a card without another source would come and go.
	heardFor = 5 * time.Minute
)

// cards are the addresses of a guest by MAC.
type cards map[string][]fleet.SeenAddress

// addressesOf returns the guests' addresses by MAC. They are read in the background, a few guests at a time.
func (b *Backend) addressesOf(ctx context.Context, all []sighted) map[fleet.VMID]cards {
	running := slices.DeleteFunc(slices.Clone(all), func(s sighted) bool { return s.live == nil || len(s.live.nics) == 0 })
	look := func() (map[fleet.VMID]cards, error) {
		c, err := dial(b.life, b.socket)
		if err != nil {
			return nil, err
		}
		defer c.hangUp()
		found := make([]cards, len(running))
		var g errgroup.Group
		g.SetLimit(4)
		for i, s := range running {
			g.Go(func() (err error) {
				found[i], err = call(b.life, c, func(l *golibvirt.Libvirt) (cards, error) {
					return addresses(l, s.ref, b.guests.nicsOf(s)), nil
				})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		out := make(map[fleet.VMID]cards, len(running))
		for i, s := range running {
			out[s.id] = found[i]
		}
		b.heard.remember(out, time.Now())
		return out, nil
	}
	return b.addresses.read(ctx, addressesAge, addressesPatience, look).value
}

// sources are whom libvirt asks, who knows best first. What a guest's agent tells goes before them: see guests.
var sources = []struct {
	ask  golibvirt.DomainInterfaceAddressesSource
	word fleet.AddressSource
}{
	{golibvirt.DomainInterfaceAddressesSrcLease, fleet.FromLease},
	{golibvirt.DomainInterfaceAddressesSrcArp, fleet.FromARP},
}

// addresses are what the guest told, the leases of libvirt's networks and the host's own ARP table say. An error is no address.
func addresses(l *golibvirt.Libvirt, ref golibvirt.Domain, told cards) cards {
	out := cards{}
	for mac, all := range told {
		out[mac] = slices.Clone(all)
	}
	for _, s := range sources {
		if found, err := l.DomainInterfaceAddresses(ref, uint32(s.ask), 0); err == nil {
			out.add(found, s.word)
		}
	}
	return out
}

// add leaves out loopback and link-local addresses; the rest is sorted.
func (k cards) add(found []golibvirt.DomainInterface, by fleet.AddressSource) {
	for _, n := range found {
		if len(n.Hwaddr) == 0 {
			continue
		}
		mac := strings.ToLower(n.Hwaddr[0])
		for _, a := range n.Addrs {
			if ip := net.ParseIP(a.Addr); ip != nil && ip.IsGlobalUnicast() {
				k.note(mac, ip.String(), by)
			}
		}
	}
}

func (k cards) note(mac, ip string, by fleet.AddressSource) {
	all := k[mac]
	i, known := slices.BinarySearchFunc(all, ip, func(a fleet.SeenAddress, ip string) int { return cmp.Compare(a.IP, ip) })
	switch {
	case known && !slices.Contains(all[i].By, by):
		all[i].By = append(all[i].By, by)
	case !known && len(all) < mostAddresses:
		k[mac] = slices.Insert(all, i, fleet.SeenAddress{IP: ip, By: []fleet.AddressSource{by}})
	}
}

// plain are the addresses alone.
func plain(seen []fleet.SeenAddress) (ips []string) {
	for _, a := range seen {
		ips = append(ips, a.IP)
	}
	return ips
}

// heard remembers what only ARP told, and when.
type heard struct {
	at map[hearing]time.Time
}

type hearing struct {
	vm      fleet.VMID
	mac, ip string
}

// remember adds to found what was heard a short while ago, of cards of which nobody else tells an address. One look is under way at a time.
func (h *heard) remember(found map[fleet.VMID]cards, now time.Time) {
	kept := map[hearing]time.Time{}
	for vm, k := range found {
		for mac, all := range k {
			for _, a := range all {
				if slices.Contains(a.By, fleet.FromARP) {
					kept[hearing{vm, mac, a.IP}] = now
				}
			}
		}
	}
	for was, at := range h.at {
		k, runs := found[was.vm]
		if _, again := kept[was]; again || !runs || now.Sub(at) > heardFor {
			continue
		}
		told := slices.ContainsFunc(k[was.mac], func(a fleet.SeenAddress) bool { return a.By[0] != fleet.FromARP })
		if !told {
			k.note(was.mac, was.ip, fleet.FromARP)
			kept[was] = at
		}
	}
	h.at = kept
}
