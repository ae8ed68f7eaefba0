package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// maxScreenshotBytes bounds the bytes read of one screenshot.
const maxScreenshotBytes = 64 << 20

// CheckGuest implements hypervisor.Guests. It changes nothing and wakes no subscriber.
func (b *Backend) CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.HealthCheckResult, error) {
	ctx, cancel := b.daemon.CancelOnClose(ctx)
	defer cancel()
	s, err := b.readVM(ctx, id)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return hypervisor.HealthCheckResult{}, errNoDomain(id)
	case err != nil:
		return hypervisor.HealthCheckResult{}, err
	case !s.managed:
		return hypervisor.HealthCheckResult{}, errUnmanagedDomain()
	case s.live == nil:
		return hypervisor.HealthCheckResult{}, hypervisor.ErrNotRunning
	}
	switch check.Kind {
	case fleet.HealthTCP, fleet.HealthHTTP:
		return b.agents.CheckPort(ctx, id, check)
	case fleet.HealthWatchdog:
		return hypervisor.HealthCheckResult{Answer: "The guest resets its watchdog.", ChangeMark: b.watchdogs.expiryMark(s.ref.UUID)}, nil
	}
	c, err := b.daemon.Dial(ctx)
	if err != nil {
		return hypervisor.HealthCheckResult{}, err
	}
	defer c.Disconnect()
	if check.Kind == fleet.HealthScreen {
		return hashScreen(ctx, c, s)
	}
	return b.agents.CheckInGuest(ctx, c, s.guestDomain(), check)
}

// hashScreen returns a checksum of the picture on the guest's first screen.
func hashScreen(ctx context.Context, c *conn.Conn, s observedDomain) (hypervisor.HealthCheckResult, error) {
	h := sha256.New()
	sum := &pictureHash{hashBytes: h.Write}
	_, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.OptString, error) { return l.DomainScreenshot(s.ref, sum, 0, 0) })
	// go-libvirt reads the end of the picture as a message header and then fails to decode the bytes after it. At that
	// time the picture is complete.
	if complete := err != nil && sum.byteCount > 0 && strings.Contains(err.Error(), "xdr:"); err != nil && !complete {
		return hypervisor.HealthCheckResult{}, hypervisor.CannotCheckGuestError("The guest's screen cannot be read: " + err.Error())
	}
	return hypervisor.HealthCheckResult{Answer: "The guest's screen changes.", ChangeMark: hex.EncodeToString(h.Sum(nil))}, nil
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
