package libvirt

import (
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
)

// addressesOf returns the guests' addresses by MAC. They are read in the background, a few guests at a time: a guest's
// agent may take its seconds to answer.
func (b *Backend) addressesOf(ctx context.Context, all []sighted) map[fleet.VMID]map[string][]string {
	running := slices.DeleteFunc(slices.Clone(all), func(s sighted) bool { return s.live == nil || len(s.live.nics) == 0 })
	look := func() (map[fleet.VMID]map[string][]string, error) {
		c, err := dial(b.life, b.socket)
		if err != nil {
			return nil, err
		}
		defer c.hangUp()
		found := make([]map[string][]string, len(running))
		var g errgroup.Group
		g.SetLimit(4)
		for i, s := range running {
			g.Go(func() (err error) {
				found[i], err = call(b.life, c, func(l *golibvirt.Libvirt) (map[string][]string, error) {
					return addresses(l, s.ref, s.agent), nil
				})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		out := make(map[fleet.VMID]map[string][]string, len(running))
		for i, s := range running {
			out[s.id] = found[i]
		}
		return out, nil
	}
	return b.addresses.read(ctx, addressesAge, addressesPatience, look).value
}

// addresses asks the guest's agent, which knows best, else the leases of libvirt's networks. An error is no address.
func addresses(l *golibvirt.Libvirt, ref golibvirt.Domain, agent bool) map[string][]string {
	sources := []golibvirt.DomainInterfaceAddressesSource{golibvirt.DomainInterfaceAddressesSrcLease}
	if agent {
		sources = []golibvirt.DomainInterfaceAddressesSource{golibvirt.DomainInterfaceAddressesSrcAgent, golibvirt.DomainInterfaceAddressesSrcLease}
	}
	for _, source := range sources {
		cards, err := l.DomainInterfaceAddresses(ref, uint32(source), 0)
		if found := byMAC(cards); err == nil && len(found) > 0 {
			return found
		}
	}
	return nil
}

// byMAC leaves out loopback and link-local addresses; the rest is sorted.
func byMAC(cards []golibvirt.DomainInterface) map[string][]string {
	out := map[string][]string{}
	for _, n := range cards {
		if len(n.Hwaddr) == 0 {
			continue
		}
		mac := strings.ToLower(n.Hwaddr[0])
		for _, a := range n.Addrs {
			if ip := net.ParseIP(a.Addr); ip != nil && ip.IsGlobalUnicast() {
				out[mac] = append(out[mac], ip.String())
			}
		}
		slices.Sort(out[mac])
		out[mac] = slices.Compact(out[mac])
		out[mac] = out[mac][:min(len(out[mac]), mostAddresses)]
		if len(out[mac]) == 0 {
			delete(out, mac)
		}
	}
	return out
}
