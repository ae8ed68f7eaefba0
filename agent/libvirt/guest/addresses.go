package guest

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

const (
	addressMaxAge      = 10 * time.Second
	addressReadTimeout = 300 * time.Millisecond
	maxAddresses       = 64 // per NIC, so that no guest's answer grows the host's report beyond the portal's limit

	// arpMaxAge is how long an address is reported after its last ARP entry. The kernel drops ARP entries sooner than
	// guests drop their addresses, so without arpMaxAge an address known only from ARP would appear and disappear.
	arpMaxAge = 5 * time.Minute
)

// NICAddresses maps the MAC address of each NIC of a guest to the NIC's IP addresses.
type NICAddresses map[string][]fleet.SeenAddress

// Addresses returns the last known IP addresses of each running guest, by MAC address. A background read refreshes
// the addresses, four guests at a time.
func (as *Agents) Addresses(ctx context.Context, all []Domain) map[fleet.VMID]NICAddresses {
	running := slices.DeleteFunc(slices.Clone(all), func(s Domain) bool { return s.Live == nil || len(s.Live.NICs) == 0 })
	look := func() (map[fleet.VMID]NICAddresses, error) {
		c, err := as.daemon.Dial(as.daemon.RunContext)
		if err != nil {
			return nil, err
		}
		defer c.Disconnect()
		found := make([]NICAddresses, len(running))
		var g errgroup.Group
		g.SetLimit(4)
		for i, s := range running {
			g.Go(func() (err error) {
				found[i], err = conn.Call(as.daemon.RunContext, c, func(l *golibvirt.Libvirt) (NICAddresses, error) {
					return readAddresses(l, s.Ref, as.nicAddressesOf(s)), nil
				})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		out := make(map[fleet.VMID]NICAddresses, len(running))
		for i, s := range running {
			out[s.ID] = found[i]
		}
		as.arpHistory.addRecent(out, time.Now())
		return out, nil
	}
	return as.addressWatch.Read(ctx, addressMaxAge, addressReadTimeout, look).Value
}

// LastAddresses returns the guest's IP addresses of the last call of Addresses.
func (as *Agents) LastAddresses(id fleet.VMID) NICAddresses { return as.addressWatch.State().Value[id] }

// addressSources lists the address sources that libvirt offers, most reliable first. The guest agent (see Agents) is
// more reliable than these sources.
var addressSources = []struct {
	ask    golibvirt.DomainInterfaceAddressesSource
	source fleet.AddressSource
}{
	{golibvirt.DomainInterfaceAddressesSrcLease, fleet.FromLease},
	{golibvirt.DomainInterfaceAddressesSrcArp, fleet.FromARP},
}

// readAddresses merges the guest agent's addresses with the DHCP leases of libvirt's networks and the host's ARP table.
// A source that fails adds no address.
func readAddresses(l *golibvirt.Libvirt, ref golibvirt.Domain, reported NICAddresses) NICAddresses {
	out := NICAddresses{}
	for mac, all := range reported {
		out[mac] = slices.Clone(all)
	}
	for _, s := range addressSources {
		if found, err := l.DomainInterfaceAddresses(ref, uint32(s.ask), 0); err == nil {
			out.addSource(found, s.source)
		}
	}
	return out
}

// addSource merges the addresses of one source. It skips loopback and link-local addresses; each NIC's list stays
// sorted.
func (k NICAddresses) addSource(found []golibvirt.DomainInterface, by fleet.AddressSource) {
	for _, n := range found {
		if len(n.Hwaddr) == 0 {
			continue
		}
		mac := strings.ToLower(n.Hwaddr[0])
		for _, a := range n.Addrs {
			if ip := net.ParseIP(a.Addr); ip != nil && ip.IsGlobalUnicast() {
				k.addAddress(mac, ip.String(), by)
			}
		}
	}
}

// addAddress adds one address and its source to the NIC's list, which has at most maxAddresses entries.
func (k NICAddresses) addAddress(mac, ip string, by fleet.AddressSource) {
	all := k[mac]
	i, known := slices.BinarySearchFunc(all, ip, func(a fleet.SeenAddress, ip string) int { return cmp.Compare(a.IP, ip) })
	switch {
	case known && !slices.Contains(all[i].By, by):
		all[i].By = append(all[i].By, by)
	case !known && len(all) < maxAddresses:
		k[mac] = slices.Insert(all, i, fleet.SeenAddress{IP: ip, By: []fleet.AddressSource{by}})
	}
}

// IPsOf returns the IP addresses without their sources.
func IPsOf(seen []fleet.SeenAddress) (ips []string) {
	for _, a := range seen {
		ips = append(ips, a.IP)
	}
	return ips
}

// arpHistory remembers when each address was last seen in the ARP table.
type arpHistory struct {
	lastSeen map[arpKey]time.Time
}

type arpKey struct {
	vm      fleet.VMID
	mac, ip string
}

// addRecent adds addresses from recent ARP entries to found, for NICs without an address from another source. It is not
// safe for concurrent use.
func (h *arpHistory) addRecent(found map[fleet.VMID]NICAddresses, now time.Time) {
	current := map[arpKey]time.Time{}
	for vm, k := range found {
		for mac, all := range k {
			for _, a := range all {
				if slices.Contains(a.By, fleet.FromARP) {
					current[arpKey{vm, mac, a.IP}] = now
				}
			}
		}
	}
	for was, at := range h.lastSeen {
		k, runs := found[was.vm]
		if _, again := current[was]; again || !runs || now.Sub(at) > arpMaxAge {
			continue
		}
		reported := slices.ContainsFunc(k[was.mac], func(a fleet.SeenAddress) bool { return a.By[0] != fleet.FromARP })
		if !reported {
			k.addAddress(was.mac, was.ip, fleet.FromARP)
			current[was] = at
		}
	}
	h.lastSeen = current
}
