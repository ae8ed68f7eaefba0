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
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// maxScreenshotBytes bounds the bytes read of one screenshot.
const maxScreenshotBytes = 64 << 20

// CheckGuest implements hypervisor.Guests. It changes nothing and wakes no subscriber.
func (b *Backend) CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.CheckResult, error) {
	ctx, cancel := b.daemon.CancelOnClose(ctx)
	defer cancel()
	s, err := b.readVM(ctx, id)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return hypervisor.CheckResult{}, errNoDomain(id)
	case err != nil:
		return hypervisor.CheckResult{}, err
	case !s.managed:
		return hypervisor.CheckResult{}, errUnmanaged()
	case s.live == nil:
		return hypervisor.CheckResult{}, hypervisor.ErrNotRunning
	}
	switch check.Kind {
	case fleet.HealthTCP, fleet.HealthHTTP:
		reach := dialTargets(b.addressWatch.State().Value[id], neighbours())
		return hypervisor.CheckPort(ctx, check, func(ctx context.Context, port int) (net.Conn, error) { return dialFirstReachable(ctx, reach, port) })
	case fleet.HealthWatchdog:
		return hypervisor.CheckResult{Answer: "The guest resets its watchdog.", ChangeMark: b.watchdogs.expiryMark(s.ref.UUID)}, nil
	}
	c, err := b.daemon.Dial(ctx)
	if err != nil {
		return hypervisor.CheckResult{}, err
	}
	defer c.Disconnect()
	if check.Kind == fleet.HealthScreen {
		return hashScreen(ctx, c, s)
	}
	if s.live.FieldValues.Devices.GuestAgent == "none" {
		return hypervisor.CheckResult{}, hypervisor.CannotCheckError("The running guest has no guest agent channel.")
	}
	if !s.agentConnected {
		return hypervisor.CheckResult{}, errNoAgentAnswer
	}
	if check.Kind == fleet.HealthExec {
		return b.checkPrograms.runCheck(ctx, newAgentCaller(ctx, c, s), s, check)
	}
	limit := time.Duration(check.Timeout) * time.Second
	if _, err := callAgent[struct{}](newAgentCaller(ctx, c, s), limit, "guest-ping", nil); errors.Is(err, errNoAgentAnswer) {
		return hypervisor.CheckResult{}, errNoAgentAnswer
	} else if err != nil {
		return hypervisor.CheckResult{}, err
	}
	return hypervisor.CheckResult{Answer: "The guest agent answers."}, nil
}

// hashScreen returns a checksum of the picture on the guest's first screen.
func hashScreen(ctx context.Context, c *conn.Conn, s observedDomain) (hypervisor.CheckResult, error) {
	h := sha256.New()
	sum := &pictureHash{hashBytes: h.Write}
	_, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.OptString, error) { return l.DomainScreenshot(s.ref, sum, 0, 0) })
	// go-libvirt reads the end of the picture as a message header and then fails to decode the bytes after it. At that
	// time the picture is complete.
	if complete := err != nil && sum.byteCount > 0 && strings.Contains(err.Error(), "xdr:"); err != nil && !complete {
		return hypervisor.CheckResult{}, hypervisor.CannotCheckError("The guest's screen cannot be read: " + err.Error())
	}
	return hypervisor.CheckResult{Answer: "The guest's screen changes.", ChangeMark: hex.EncodeToString(h.Sum(nil))}, nil
}

// pictureHash feeds a picture to a hash. It fails after maxScreenshotBytes bytes.
type pictureHash struct {
	hashBytes func([]byte) (int, error)
	byteCount int
}

func (b *pictureHash) Write(p []byte) (int, error) {
	if b.byteCount += len(p); b.byteCount > maxScreenshotBytes {
		return 0, fmt.Errorf("the screenshot has more than %d MiB", maxScreenshotBytes>>20)
	}
	return b.hashBytes(p)
}

// dialTarget is an address of a guest's NIC. An address known only from ARP is dialed through the device of its ARP
// entry. So a guest that claims another machine's address cannot direct the check to that machine.
type dialTarget struct {
	ip     net.IP
	device string // empty for an address from the host's own DHCP lease, which is on the NIC's network
}

// neighbour is an entry of the host's ARP table.
type neighbour struct{ ip, mac, device string }

// dialTargets returns the guest's addresses that a health check may dial. An address from the guest agent alone is not
// trusted.
func dialTargets(seen nicAddresses, arp []neighbour) []dialTarget {
	var leased, others []dialTarget
	for mac, all := range seen {
		for _, a := range all {
			ip := net.ParseIP(a.IP)
			i := slices.IndexFunc(arp, func(n neighbour) bool { return n.ip == a.IP && n.mac == mac })
			switch {
			case ip == nil:
			case slices.Contains(a.By, fleet.FromLease):
				leased = append(leased, dialTarget{ip: ip})
			case slices.Contains(a.By, fleet.FromARP) && i >= 0:
				others = append(others, dialTarget{ip, arp[i].device})
			}
		}
	}
	const most = 4
	all := slices.Concat(leased, others)
	return all[:min(len(all), most)]
}

// dialFirstReachable connects to the first address that accepts. It shares the remaining time among the addresses.
func dialFirstReachable(ctx context.Context, all []dialTarget, port int) (net.Conn, error) {
	if len(all) == 0 {
		return nil, hypervisor.CannotCheckError("The host knows no address of the guest's NICs, neither from a DHCP lease nor from ARP.")
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

// watchdogExpiries counts the expiries of each guest's watchdog, as reported by QEMU events.
type watchdogExpiries struct {
	mu     sync.Mutex
	counts map[golibvirt.UUID]int
}

// countExpiry counts an expiry of the guest's watchdog.
func (w *watchdogExpiries) countExpiry(id golibvirt.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[golibvirt.UUID]int{}
	}
	w.counts[id]++
}

// expiryMark returns a text that changes with each expiry of the guest's watchdog.
func (w *watchdogExpiries) expiryMark(id golibvirt.UUID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strconv.Itoa(w.counts[id] + 1)
}

// keepOnly removes the counts of guests that are not in all.
func (w *watchdogExpiries) keepOnly(all []observedDomain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.counts {
		if !slices.ContainsFunc(all, func(s observedDomain) bool { return s.ref.UUID == id }) {
			delete(w.counts, id)
		}
	}
}
