package libvirt

import (
	"context"
	"fmt"
	"os"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent"
	"quantix/internal/fleet"
)

// live has QEMU copy the disk of a running guest. The copy has its own name from the beginning, for QEMU keeps the name that it opened;
// what tells it from a whole disk meanwhile is that the agent has noted its file, and that the domain mirrors to it.
func (m *moving) live(ctx context.Context, s seen, h header) error {
	w := &working{Backend: m.Backend, place: m.to, c: m.c, pool: m.pool}
	if err := w.define(ctx, newVolume{format: "qcow2", size: h.Size}); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return m.undo(ctx, err)
	}
	if _, err := bounded(ctx, func() (struct{}, error) { return struct{}{}, putInPlace(m.to) }); err != nil {
		return m.undo(ctx, err)
	}
	m.refreshPool(ctx, m.c, m.pool)
	if err := m.mirror(ctx, s); err != nil {
		return m.undo(ctx, err)
	}
	return m.follow(ctx)
}

// mirror begins the copy. A definition that stays asks for a job that libvirt does not start again by itself.
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
	// What the guest writes meanwhile is copied after. QEMU can write to both at once, too, so that a guest never writes faster than it is copied; but QEMU 7.2 that
	// does, on a busy host, hangs a guest whose copy is cancelled, ends by itself, or leaves a write out of the copy.
	const flags = golibvirt.DomainBlockCopyReuseExt | golibvirt.DomainBlockCopyTransientJob
	return m.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockCopy(s.ref, targetOf(s.liveDisk), text, params, flags)
	})
}

// followPeriod is how often QEMU's copy is looked at.
const followPeriod = 500 * time.Millisecond

// follow waits for QEMU's copy, and has the guest change over when it is whole.
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
				return m.undo(ctx, ghost("the disk"))
			}
		}
		switch {
		case s.live == nil && m.keptNew(s):
			return m.settle(ctx) // it ended when it had changed over
		case s.live == nil || d == nil:
			return m.undo(ctx, fleet.Errorf(fleet.Conflict, "The guest was switched off while its disk was being moved. The disk is where it was; move it again."))
		case d.Mirror == nil && pathOf(d) == m.to.path():
			return m.settle(ctx)
		case d.Mirror == nil:
			return m.undo(ctx, m.gaveUp(ctx, s))
		case !m.mirrors(d):
			return fleet.Errorf(fleet.Conflict, "Another copy of the disk is under way on the host (virsh blockjob). End that first.")
		case m.in.Stopped():
			return m.undo(ctx, agent.ErrStopped)
		case d.Mirror.Ready == "yes":
			if err := m.pivot(ctx, s); err != nil {
				return m.undo(ctx, err) // where it has changed over all the same, that is what is found
			}
			continue
		}
		if last, err = m.tell(ctx, s.ref, targetOf(d), last); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // QEMU copies on, and whoever gets the order next follows it
		case <-m.in.Stop:
		case <-tick.C:
		}
	}
}

// pivot has the guest change over. From then on it may lose the old disk, which is kept in mind before: what cannot be is not begun.
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

// jobGone reports whether libvirt takes the copy for under way though QEMU has ended it: libvirt was ended in that moment. over: the guest is on its new disk,
// as QEMU says.
func (m *moving) jobGone(ctx context.Context, s seen) (gone, over bool, err error) {
	for began := time.Now(); time.Since(began) < ghostPatience; {
		found, err := call(ctx, m.c, func(l *golibvirt.Libvirt) (int32, error) {
			found, _, _, _, _, err := l.DomainGetBlockJobInfo(s.ref, targetOf(s.liveDisk), 0)
			return found, err
		})
		if err != nil && answered(err) {
			return false, false, nil // the guest has just ended: the next look tells
		}
		if err != nil || found != 0 {
			return false, false, err
		}
		if s, err = m.see(ctx); err != nil || s.live == nil || !m.mirrors(s.liveDisk) {
			return false, false, err // it has just ended, well or not: likewise
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

// settleLost is for a guest that libvirt has lost as it changed over. As long as it runs, its QEMU knows where it is.
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

// copied is how far QEMU's copy was, and when.
type copied struct {
	done int64
	at   time.Time
}

// tell passes on how far the copy is, if it has come further.
func (m *moving) tell(ctx context.Context, ref golibvirt.Domain, dev string, last copied) (copied, error) {
	type info struct{ done, total int64 }
	now, err := call(ctx, m.c, func(l *golibvirt.Libvirt) (info, error) {
		_, _, _, done, total, err := l.DomainGetBlockJobInfo(ref, dev, 0)
		return info{int64(done), int64(total)}, err
	})
	if err != nil && answered(err) {
		return last, nil // it has just ended, or the guest has: the next look tells
	}
	if err != nil || now.done == last.done {
		return last, err
	}
	var rate int64
	if !last.at.IsZero() {
		rate = int64(float64(now.done-last.done) / time.Since(last.at).Seconds())
	}
	m.in.Progress(agent.Copied(fmt.Sprintf("copying disk %d", m.from.number), now.done, now.total, max(0, rate)))
	return copied{now.done, time.Now()}, nil
}

// leastRoom is how little room a storage has that is full.
const leastRoom = 4 << 20

// gaveUp says why QEMU's copy has ended before it was whole, as far as anybody knows: libvirt keeps no words of it.
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
