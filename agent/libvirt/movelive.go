package libvirt

import (
	"context"
	"fmt"
	"os"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// live makes QEMU copy the disk of a running guest. The copy has its final name from the start, because QEMU keeps the
// name that it opened. An incomplete copy is recognized by the agent's record of its file and by the domain's mirror.
func (m *moving) live(ctx context.Context, s seen, h header) error {
	w := &working{Backend: m.Backend, place: m.to, c: m.c, pool: m.pool}
	if err := w.define(ctx, newVolume{format: "qcow2", size: h.Size}); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return m.revert(ctx, err)
	}
	if _, err := bounded(ctx, func() (struct{}, error) { return struct{}{}, putInPlace(m.to) }); err != nil {
		return m.revert(ctx, err)
	}
	m.refreshPool(ctx, m.c, m.pool)
	if err := m.mirror(ctx, s); err != nil {
		return m.revert(ctx, err)
	}
	return m.follow(ctx)
}

// mirror starts the copy as a transient job, which libvirt requires for a persistent domain.
func (m *moving) mirror(ctx context.Context, s seen) error {
	dest := libvirtxml.DomainDisk{
		Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: m.to.path()}},
	}
	text, err := dest.Marshal()
	if err != nil {
		return err
	}
	var params []golibvirt.TypedParam
	if rate := m.in.Order.RateBytes; rate > 0 {
		params = append(params, golibvirt.TypedParam{Field: golibvirt.DomainBlockCopyBandwidth, Value: *golibvirt.NewTypedParamValueUllong(uint64(rate))})
	}
	// Writes of the guest during the copy are copied afterwards. QEMU can also write to both disks at once
	// (write-blocking), so that a guest never outruns the copy. But QEMU 7.2 in that mode, on a busy host, hangs a
	// guest whose copy is cancelled, exits, or loses a write in the copy.
	const flags = golibvirt.DomainBlockCopyReuseExt | golibvirt.DomainBlockCopyTransientJob
	return m.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockCopy(s.ref, targetOf(s.liveDisk), text, params, flags)
	})
}

// followPeriod is the interval of checks of QEMU's copy.
const followPeriod = 500 * time.Millisecond

// follow waits for QEMU's copy and pivots the guest to it once it is complete.
func (m *moving) follow(ctx context.Context) error {
	tick := time.NewTicker(followPeriod)
	defer tick.Stop()
	var last copied
	for {
		s, err := m.see(ctx)
		if err != nil {
			return err
		}
		d := s.liveDisk
		if s.live != nil && m.mirrors(d) {
			switch gone, over, err := m.jobGone(ctx, s); {
			case err != nil:
				return err
			case over:
				return m.settle(ctx)
			case gone:
				return m.revert(ctx, ghost("the disk"))
			}
		}
		switch {
		case s.live == nil && m.definesNew(s):
			return m.settle(ctx) // the guest ended after the pivot
		case s.live == nil || d == nil:
			return m.revert(ctx, fleet.Errorf(fleet.Conflict, "The guest was switched off while its disk was being moved. The disk is where it was; move it again."))
		case d.Mirror == nil && pathOf(d) == m.to.path():
			return m.settle(ctx)
		case d.Mirror == nil:
			return m.revert(ctx, m.gaveUp(ctx, s))
		case !m.mirrors(d):
			return fleet.Errorf(fleet.Conflict, "Another copy of the disk is under way on the host (virsh blockjob). End that first.")
		case m.in.Stopped():
			return m.revert(ctx, hypervisor.ErrStopped)
		case d.Mirror.Ready == "yes":
			if err := m.pivot(ctx, s); err != nil {
				return m.revert(ctx, err) // if the pivot happened all the same, revert detects it
			}
			continue
		}
		if last, err = m.reportProgress(ctx, s.ref, targetOf(d), last); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // QEMU continues to copy, and the retried job follows it
		case <-m.in.Stop:
		case <-tick.C:
		}
	}
}

// pivot switches the guest to the new disk. The switch is recorded first, because the guest may lose the old disk. If
// the record fails, the pivot does not start.
func (m *moving) pivot(ctx context.Context, s seen) error {
	m.in.Progress(99, "changing over to the new disk")
	if !m.pivoted {
		if err := m.in.Begun(m.in.Made + changingOver); err != nil {
			return err
		}
		if err := m.in.Whole(m.to.ref()); err != nil {
			return err
		}
		m.pivoted = true
	}
	return m.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockJobAbort(s.ref, targetOf(s.liveDisk), golibvirt.DomainBlockJobAbortPivot)
	})
}

// jobGone reports whether libvirt believes that the copy runs although QEMU has ended it, because libvirtd was stopped
// at that moment. over reports that QEMU uses the new disk.
func (m *moving) jobGone(ctx context.Context, s seen) (gone, over bool, err error) {
	for began := time.Now(); time.Since(began) < ghostPatience; {
		found, err := call(ctx, m.c, func(l *golibvirt.Libvirt) (int32, error) {
			found, _, _, _, _, err := l.DomainGetBlockJobInfo(s.ref, targetOf(s.liveDisk), 0)
			return found, err
		})
		if err != nil && answered(err) {
			return false, false, nil // the guest has just ended, and the next check shows the result
		}
		if err != nil || found != 0 {
			return false, false, err
		}
		if s, err = m.see(ctx); err != nil || s.live == nil || !m.mirrors(s.liveDisk) {
			return false, false, err // the copy or the guest has just ended; the next check shows the result
		}
		if err := later(ctx); err != nil {
			return false, false, err
		}
	}
	over, err = m.onNew(ctx, s)
	return err == nil, over, err
}

// onNew asks QEMU whether the guest is on its new disk.
func (m *moving) onNew(ctx context.Context, s seen) (bool, error) {
	return m.changedTo(ctx, m.c, s.sighted, m.from.path(), m.to.path())
}

// settleLost handles a guest that libvirt lost during the pivot. While its QEMU runs, QEMU knows which disk it uses.
func (m *moving) settleLost(ctx context.Context, s seen) error {
	if !m.pivoted {
		return nil
	}
	over, err := m.onNew(ctx, s)
	if err != nil || !over {
		return err
	}
	return m.settle(ctx)
}

// copied is the progress of QEMU's copy at one time.
type copied struct {
	done int64
	at   time.Time
}

// reportProgress reports the copy's progress if it has advanced.
func (m *moving) reportProgress(ctx context.Context, ref golibvirt.Domain, dev string, last copied) (copied, error) {
	type info struct{ done, total int64 }
	now, err := call(ctx, m.c, func(l *golibvirt.Libvirt) (info, error) {
		_, _, _, done, total, err := l.DomainGetBlockJobInfo(ref, dev, 0)
		return info{int64(done), int64(total)}, err
	})
	if err != nil && answered(err) {
		return last, nil // the copy or the guest has just ended; the next check shows the result
	}
	if err != nil || now.done == last.done {
		return last, err
	}
	var rate int64
	if !last.at.IsZero() {
		rate = int64(float64(now.done-last.done) / time.Since(last.at).Seconds())
	}
	m.in.Progress(hypervisor.Copied(fmt.Sprintf("copying disk %d", m.from.number), now.done, now.total, max(0, rate)))
	return copied{now.done, time.Now()}, nil
}

// leastRoom is the free space in bytes below which storage counts as full.
const leastRoom = 4 << 20

// gaveUp returns the likely reason why QEMU's copy ended early. libvirt records none.
func (m *moving) gaveUp(ctx context.Context, s seen) error {
	free, err := bounded(ctx, func() (int64, error) {
		f, err := os.Open(m.to.pool.Spec.Path)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return freeBytes(f)
	})
	if err == nil && free < leastRoom {
		return fleet.Errorf(fleet.Conflict, "The pool %s is full: No space left on device. The disk is where it was. Make room there, and move it again.", m.to.pool.Name)
	}
	return fleet.Errorf(fleet.Conflict, "QEMU gave up copying the disk, or somebody on the host did (virsh blockjob --abort). The disk is where it was; the host's /var/log/libvirt/qemu/%s.log may say why.", s.ref.Name)
}
