package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// maxScreenshot bounds the bytes read of one screenshot.
const maxScreenshot = 64 << 20

// CheckGuest implements hypervisor.Guests. It changes nothing and wakes no subscriber.
func (b *Backend) CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.Sign, error) {
	ctx, cancel := b.alive(ctx)
	defer cancel()
	s, err := b.see(ctx, id)
	switch {
	case is(err, golibvirt.ErrNoDomain):
		return hypervisor.Sign{}, noDomain(id)
	case err != nil:
		return hypervisor.Sign{}, err
	case !s.ours:
		return hypervisor.Sign{}, notOurs()
	case s.live == nil:
		return hypervisor.Sign{}, hypervisor.ErrNotRunning
	}
	switch check.Kind {
	case fleet.HealthTCP, fleet.HealthHTTP:
		reach := reachable(b.addresses.sight().value[id], neighbours())
		return hypervisor.AskPort(ctx, check, func(ctx context.Context, port int) (net.Conn, error) { return dialFirst(ctx, reach, port) })
	case fleet.HealthWatchdog:
		return hypervisor.Sign{Said: "The guest resets its watchdog.", Mark: b.watchdogs.mark(s.ref.UUID)}, nil
	}
	c, err := dial(ctx, b.socket)
	if err != nil {
		return hypervisor.Sign{}, err
	}
	defer c.hangUp()
	if check.Kind == fleet.HealthScreen {
		return screenOf(ctx, c, s)
	}
	if s.live.parts.Devices.GuestAgent == "none" {
		return hypervisor.Sign{}, hypervisor.Unsure("The running guest has no guest agent channel.")
	}
	if !s.agent {
		return hypervisor.Sign{}, errSilent
	}
	if check.Kind == fleet.HealthExec {
		return b.execs.check(ctx, asker(ctx, c, s), s, check)
	}
	limit := time.Duration(check.Timeout) * time.Second
	if _, err := askGuest[struct{}](asker(ctx, c, s), limit, "guest-ping", nil); errors.Is(err, errSilent) {
		return hypervisor.Sign{}, errSilent
	} else if err != nil {
		return hypervisor.Sign{}, err
	}
	return hypervisor.Sign{Said: "The guest agent answers."}, nil
}

// screenOf returns a checksum of the picture on the guest's first screen.
func screenOf(ctx context.Context, c *conn, s sighted) (hypervisor.Sign, error) {
	h := sha256.New()
	sum := &screenshot{h: h.Write}
	_, err := call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.OptString, error) { return l.DomainScreenshot(s.ref, sum, 0, 0) })
	// go-libvirt reads the end of the picture as a message header and then fails to decode the rest. At that time the
	// picture is complete.
	if complete := err != nil && sum.n > 0 && strings.Contains(err.Error(), "xdr:"); err != nil && !complete {
		return hypervisor.Sign{}, hypervisor.Unsure("The guest's screen cannot be read: " + err.Error())
	}
	return hypervisor.Sign{Said: "The guest's screen changes.", Mark: hex.EncodeToString(h.Sum(nil))}, nil
}

// screenshot feeds a picture to a hash. It fails after maxScreenshot bytes.
type screenshot struct {
	h func([]byte) (int, error)
	n int
}

func (b *screenshot) Write(p []byte) (int, error) {
	if b.n += len(p); b.n > maxScreenshot {
		return 0, fmt.Errorf("the screenshot has more than %d MiB", maxScreenshot>>20)
	}
	return b.h(p)
}

// reach is an address of a guest's NIC. An address known only from ARP is dialed through the device of its ARP entry.
// So a guest that claims another machine's address cannot direct the check to that machine.
type reach struct {
	ip     net.IP
	device string // empty for an address from the host's own DHCP lease, which is on the NIC's network
}

// neighbour is an entry of the host's ARP table.
type neighbour struct{ ip, mac, device string }

// reachable returns the guest's addresses that a health check may dial. An address from the guest agent alone is not
// trusted.
func reachable(seen cards, arp []neighbour) []reach {
	var leased, others []reach
	for mac, all := range seen {
		for _, a := range all {
			ip := net.ParseIP(a.IP)
			i := slices.IndexFunc(arp, func(n neighbour) bool { return n.ip == a.IP && n.mac == mac })
			switch {
			case ip == nil:
			case slices.Contains(a.By, fleet.FromLease):
				leased = append(leased, reach{ip: ip})
			case slices.Contains(a.By, fleet.FromARP) && i >= 0:
				others = append(others, reach{ip, arp[i].device})
			}
		}
	}
	const most = 4
	all := slices.Concat(leased, others)
	return all[:min(len(all), most)]
}

// dialFirst connects to the first address that accepts. It shares the remaining time among the addresses.
func dialFirst(ctx context.Context, all []reach, port int) (net.Conn, error) {
	if len(all) == 0 {
		return nil, hypervisor.Unsure("The host knows no address of the guest's NICs, neither from a DHCP lease nor from ARP.")
	}
	var first error
	for i, to := range all {
		within, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && i < len(all)-1 {
			within, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(all)-i))
		}
		conn, err := dialerOn(to.device).DialContext(within, "tcp", net.JoinHostPort(to.ip.String(), strconv.Itoa(port)))
		cancel()
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// watchdogs counts the expiries of each guest's watchdog, as reported by QEMU events.
type watchdogs struct {
	mu   sync.Mutex
	bits map[golibvirt.UUID]int
}

// note counts an expiry of the guest's watchdog.
func (w *watchdogs) note(id golibvirt.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bits == nil {
		w.bits = map[golibvirt.UUID]int{}
	}
	w.bits[id]++
}

// mark returns a text that changes with each expiry of the guest's watchdog.
func (w *watchdogs) mark(id golibvirt.UUID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strconv.Itoa(w.bits[id] + 1)
}

// keepOnly removes the counts of guests that are not in all.
func (w *watchdogs) keepOnly(all []sighted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.bits {
		if !slices.ContainsFunc(all, func(s sighted) bool { return s.ref.UUID == id }) {
			delete(w.bits, id)
		}
	}
}
