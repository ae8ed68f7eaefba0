package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// VolumeWork is an order for one volume.
type VolumeWork struct {
	Pool  fleet.Pool
	Name  string
	Order fleet.VolumeOrder
	// Source is the source's pool if it is another pool.
	Source *fleet.Pool
	Pools  []fleet.Pool // export: the pools of the disks
	// Hashed receives computed checksums. Its error ends the order.
	Hashed func(...Hashed) error
	Made   string // the file that an earlier attempt of this order reported to Whole; empty: none
	// Whole receives the new file as soon as its content is complete, before it gets the volume's name. Its error ends
	// the order.
	Whole    func(file string) error
	Progress Progress
	Sent     Sent // upload: the incoming data
	// Send sends a file to another host and returns once that host has all of it.
	Send func(ctx context.Context, pieces transfer.Pieces, size int64) error
	// Arrive writes a file of another host into dst, at most room bytes of data. It may truncate dst and start again.
	Arrive func(ctx context.Context, dst transfer.Sink, room int64) (Arrived, error)
}

// Ref names the volume.
func (w VolumeWork) Ref() fleet.Volref { return fleet.Volref{PoolID: w.Pool.ID, Volume: w.Name} }

// onVolume returns a job handler that calls the hypervisor for a volume. It requires the volume's pool, and refuses if
// VMs or images that must keep the volume hold it. The call may take long, but must report progress.
func onVolume(call func(Hypervisor, context.Context, VolumeWork) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		ref, ok := j.Subject.Volume()
		switch {
		case !ok || !fleet.IsVolumeName(ref.Volume):
			return fleet.Errorf(fleet.Invalid, "%q is no volume.", string(j.Subject))
		case j.Pool == nil || j.Pool.ID != ref.PoolID || j.Args.Volume == nil:
			return errors.New("the portal sent this work without its pool, or without saying what to do")
		case j.Held != nil:
			if err := j.Held.Refuse(j.Kind); err != nil {
				return err
			}
		}
		var source *fleet.Pool
		if from := j.Args.Volume.SourcePool; from != "" {
			i := slices.IndexFunc(j.Pools, func(p fleet.Pool) bool { return p.ID == from })
			if i < 0 {
				return NoSource()
			}
			source = &j.Pools[i]
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stalled := time.AfterFunc(a.times.stall, func() { cancel(errStalled) })
		defer stalled.Stop()
		if j.Kind.Is().Stoppable && !j.Args.Volume.Flatten { // libvirt flattens, and cannot be stopped
			defer j.whenStopped(func(cause error) { cancel(cause) })()
		}
		return explain(ctx, call(a.hypervisor, ctx, VolumeWork{
			Pool: *j.Pool, Name: ref.Volume, Order: *j.Args.Volume, Made: a.state.volumeFile(j.ID), Source: source, Pools: j.Pools,
			Hashed: func(all ...Hashed) error {
				if err := a.state.noteHashed(all...); err != nil {
					return fmt.Errorf("the checksum is computed, but the agent cannot keep that in mind: %w", err)
				}
				return nil
			},
			Whole: func(file string) error {
				if err := a.state.noteVolume(j.ID, file); err != nil {
					return fmt.Errorf("the volume is made, but the agent cannot keep that in mind: %w", err)
				}
				return nil
			},
			Progress: func(percent int, note string) {
				stalled.Reset(a.times.stall)
				j.notifier.notify(percent, note)
			},
		}))
	}
}

// observeVolume adds the current state of the volume's pool to the finish.
func observeVolume(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Pool == nil {
		return
	}
	state, err := a.hypervisor.Snapshot(ctx, Assigned{Pools: []fleet.Pool{*j.Pool}, Hashed: a.state.hashed()})
	if err != nil || !state.Host.Connected {
		return
	}
	state = clone(state)
	a.state.complete(&state, a.bootID())
	for _, p := range state.Pools {
		if p.Name == j.Pool.Name {
			out.Pool = &p.Status
		}
	}
}

// Downloaded formats the progress of a download for people.
func Downloaded(done, total, rate int64) (percent int, note string) {
	note = fleet.Bytes(done)
	if total > 0 {
		percent, note = int(min(99, float64(done)/float64(total)*100)), note+" of "+fleet.Bytes(total)
	}
	if rate > 0 {
		note += ", " + fleet.Bytes(rate) + "/s"
	}
	return percent, note
}

// Reasons to refuse a volume order, shared by both backends.

// VolumeTaken refuses to create a volume in place of an existing one.
func VolumeTaken(name, pool string) error {
	return fleet.Errorf(fleet.Conflict, "The pool %s has a volume named %s already. It is left as it is; choose another name.", pool, name)
}

// NoVolume reports that no volume has that name.
func NoVolume(name, pool string) error {
	return fleet.Errorf(fleet.NotFound, "The pool %s has no volume named %s on this host.", pool, name)
}

// GrowsWhileOn refuses to grow an encrypted disk of a VM that is off: only QEMU has its passphrase.
func GrowsWhileOn(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is encrypted, so it grows while its guest runs. Start the VM, and grow it then.", name)
}

// VolumeUsed refuses a volume that a domain of the host uses.
func VolumeUsed(name, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is in use by the VM %s on this host. Detach it there first.", name, domain)
}

// VolumeRuns refuses to read a volume that a running guest writes.
func VolumeRuns(name, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s runs with the volume %s, so a copy would not be whole. Shut the VM down first.", domain, name)
}

// VolumeBase refuses a volume that backs another one.
func VolumeBase(name, other string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s stands on %s and would be broken. Flatten or delete that one first.", other, name)
}

// VolumeNamed refuses a new name in pools whose volumes cannot be renamed.
func VolumeNamed(pool string) error {
	return fleet.Errorf(fleet.Conflict, "libvirt cannot rename volumes of the pool %s. Clone the volume under the new name, and delete this one.", pool)
}

// VolumeNoFile refuses to send a volume of a block pool.
func VolumeNoFile(pool string) error {
	return fleet.Errorf(fleet.Conflict, "The volumes of the pool %s are no files, so they are not sent. Copy them with the tools of their storage.", pool)
}

// VolumeOnOthers refuses to send a volume without its backing file.
func VolumeOnOthers(name, other string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s stands on %s, so what is in it alone would be no whole volume. Make an image of the VM that has it: that has all in one file.", name, other)
}

// VolumeRaw refuses to make an image of a raw disk whose content looks like another format: readers of the image would
// detect that format.
func VolumeRaw(name, format string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is a raw disk, and what its guest wrote there reads as the format %s, so no image is made of it. "+
		"Give the VM a disk of the usual format, and copy the data in the guest.", name, format)
}

// VolumeEnding refuses a name whose suffix suggests another format than the file has, or than the guest's data looks
// like.
func VolumeEnding(name, format string) error {
	if fleet.IsRawName(name) {
		return fleet.Errorf(fleet.Conflict, "What is to be named %s has the format %s, and names that end in .raw are for raw disks. Choose another name.", name, format)
	}
	return fleet.Errorf(fleet.Conflict, "What is to be named %s is a raw disk, and what its guest wrote there reads as the format %s. Choose a name that ends in .raw, so that it stays a raw disk.", name, format)
}

// VolumeShrinks refuses to shrink a volume.
func VolumeShrinks(name string, has, asked int64) error {
	return fleet.Errorf(fleet.Invalid, "The volume %s has %d bytes, more than the %d asked for. A volume only grows.", name, has, asked)
}
