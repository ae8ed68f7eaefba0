package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// stoppableContext returns a context that ends when a user stops the job; its cause names that user.
func stoppableContext(ctx context.Context, j *job) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := j.whenStopped(func(err error) { cancel(err) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// stopCause returns the cause if a user stopped the job, else err.
func stopCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil {
		if _, taken := cancellationReason(cause); taken {
			return cause
		}
	}
	return err
}

// receiveVolume receives a volume from another host.
func receiveVolume(ctx context.Context, a *Agent, j *job) error {
	ref, ok := j.Subject.Volume()
	switch {
	case !ok || !fleet.IsVolumeName(ref.Volume):
		return fleet.Errorf(fleet.Invalid, "%q is not a valid volume.", string(j.Subject))
	case j.Pool == nil || j.Pool.ID != ref.PoolID || j.Args.Volume == nil || j.Args.Volume.Transfer == nil:
		return errors.New("the portal sent this job without its pool or its transfer")
	}
	order := *j.Args.Volume.Transfer
	ctx, end := stoppableContext(ctx, j)
	defer end()
	m := a.newRendezvous(j, order.ID, order.PeerName)
	var in *transfer.ReceivingConn
	busy := func() {}
	err := a.hypervisor.ReceiveVolume(ctx, hypervisor.VolumeWork{
		Pool: *j.Pool, Name: ref.Volume, Params: *j.Args.Volume, RecordedFile: a.state.createdVolumeFile(j.ID),
		RecordChecksums: func(all ...hypervisor.VolumeChecksum) error { return a.state.addChecksums(all...) },
		RecordFile:      func(file string) error { return a.state.recordCreatedVolume(j.ID, file) },
		Receive: func(ctx context.Context, dst transfer.Sink, room int64) (out hypervisor.ReceivedFile, err error) {
			in, err = m.receive(ctx, func(ctx context.Context, in *transfer.ReceivingConn) error {
				if err := dst.Truncate(0); err != nil {
					return err
				}
				if out.Bytes, err = in.Size(); err != nil {
					return err
				}
				meter := &transfer.Meter{Total: out.Bytes, Report: func(done, total, rate int64) {
					percent, note := hypervisor.FormatCopyProgress("receiving from "+m.peerName, done, total, rate)
					j.notifier.notify(percent, note)
				}}
				out.Sum, err = in.Receive(ctx, dst, out.Bytes, room, meter)
				return err
			})
			if err == nil {
				busy = sendKeepAlives(in)
			}
			return out, err
		},
		Progress: j.notifier.notify,
	})
	busy()
	if in != nil {
		in.Answer(err)
	}
	return stopCause(ctx, err)
}

// sendKeepAlives sends keep-alives to the sender until the caller calls stop.
func sendKeepAlives(in *transfer.ReceivingConn) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(keepAliveInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				in.SendStillChecking()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-gone }
}

// sendVolume sends a volume to another host.
func sendVolume(ctx context.Context, a *Agent, j *job) error {
	v := j.Args.Volume
	if v == nil || v.Transfer == nil || !fleet.IsVolumeName(v.Source) {
		return errors.New("the portal sent this job without its volume or its transfer")
	}
	i := slices.IndexFunc(j.Pools, func(p fleet.Pool) bool { return p.ID == v.SourcePool })
	if i < 0 {
		return hypervisor.NoSourcePoolError()
	}
	ctx, end := stoppableContext(ctx, j)
	defer end()
	m := a.newRendezvous(j, v.Transfer.ID, v.Transfer.PeerName)
	err := a.hypervisor.SendVolume(ctx, hypervisor.VolumeWork{
		Pool: j.Pools[i], Name: v.Source, Params: *v,
		RecordChecksums: func(all ...hypervisor.VolumeChecksum) error { return a.state.addChecksums(all...) },
		Send: func(ctx context.Context, pieces transfer.Pieces, size int64) error {
			return m.send(ctx, pieces, size, &transfer.RateLimit{Bytes: v.Transfer.RateBytes}, func(done, total, rate int64, way string) {
				percent, note := hypervisor.FormatCopyProgress("sending "+v.Source+" to "+m.peerName, done, total, rate)
				j.notifier.notify(percent, note+way)
			})
		},
		Progress: j.notifier.notify,
	})
	return stopCause(ctx, err)
}

// migrateVM migrates a running VM, or sends the files of a stopped VM one after the other, and removes the VM once the
// portal knows that all files have arrived.
func migrateVM(ctx context.Context, a *Agent, j *job) error {
	if j.Args.Migrate == nil {
		return errors.New("the portal sent this job without the VM's destination")
	}
	order := *j.Args.Migrate
	if order.Live != "" {
		return migrateRunningVM(ctx, a, j, order)
	}
	ctx, end := stoppableContext(ctx, j)
	defer end()
	rate, files := &transfer.RateLimit{Bytes: order.RateBytes}, order.Transfers()
	err := a.hypervisor.MigrateVM(ctx, hypervisor.MigrateVMWork{
		VM: *j.VM, Pools: j.Pools, Params: order,
		SentStamp: a.state.sentDiskStamp,
		RecordSending: func(file fleet.TransferID, stamp string) error {
			if err := a.state.recordSentDisk(file, stamp); err != nil {
				return fmt.Errorf("nothing was sent, because the agent cannot record the file that it sends: %w", err)
			}
			return nil
		},
		Send: func(ctx context.Context, file fleet.TransferID, pieces transfer.Pieces, size int64) error {
			n, what := slices.Index(files, file), "the UEFI variables and TPM state"
			if order.Definition {
				what = "the definition"
			}
			if n < len(order.Disks) {
				what = fmt.Sprintf("disk %d of %d", n+1, len(order.Disks))
			}
			m := a.newRendezvous(j, file, order.ToName)
			return m.send(ctx, pieces, size, rate, func(done, total, rate int64, way string) {
				percent, note := hypervisor.FormatCopyProgress(fmt.Sprintf("sending %s to %s", what, m.peerName), done, total, rate)
				j.notifier.notify((100*n+percent)/len(files), note+way)
			})
		},
		WaitArrived: func(ctx context.Context) error {
			for _, file := range files {
				if _, err := a.newRendezvous(j, file, order.ToName).pollUntil(ctx, wire.TransferState{}, "waiting for", func(o wire.TransferPeerState) bool { return o.Received }); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		},
		Progress: j.notifier.notify,
	})
	return stopCause(ctx, err)
}

// firmwareJob returns the VM and the transfer of a job for UEFI variables and TPM state.
func firmwareJob(j *job) (fleet.VMID, fleet.TransferID, error) {
	typ, id := j.Subject.ResourceAndID()
	if typ != string(fleet.TypeVM) || j.Args.Migrate == nil || j.Args.Migrate.Firmware == "" {
		return "", "", errors.New("the portal sent this job without its VM or its transfer")
	}
	return fleet.VMID(id), j.Args.Migrate.Firmware, nil
}

// receiveFirmware receives the UEFI variables and the TPM state of a VM that is off, and the definition of an adopted VM.
func receiveFirmware(ctx context.Context, a *Agent, j *job) error {
	vm, id, err := firmwareJob(j)
	if err != nil {
		return err
	}
	var apply *hypervisor.ApplyWork
	if j.Args.Migrate.Definition {
		if j.VM == nil {
			return errors.New("the portal sent this job without the VM")
		}
		work := newArrivalWork(a, j)
		apply = &work
	}
	ctx, end := stoppableContext(ctx, j)
	defer end()
	m := a.newRendezvous(j, id, "the other host")
	var in *transfer.ReceivingConn
	err = a.hypervisor.ReceiveFirmware(ctx, hypervisor.ReceiveFirmwareWork{
		VM: vm, Transfer: id, Apply: apply, Progress: j.notifier.notify,
		Receive: func(ctx context.Context, maxBytes int64) ([]byte, error) {
			var to *transfer.MemorySink
			in, err = m.receive(ctx, func(ctx context.Context, in *transfer.ReceivingConn) error {
				size, err := in.Size()
				if err != nil {
					return err
				}
				to = &transfer.MemorySink{Max: maxBytes}
				if err := to.Truncate(size); err != nil {
					return err
				}
				_, err = in.Receive(ctx, to, size, maxBytes, &transfer.Meter{Total: size, Report: func(int64, int64, int64) {}})
				return err
			})
			if err != nil {
				return nil, err
			}
			return to.Data, nil
		},
	})
	if in != nil {
		in.Answer(err)
	}
	return stopCause(ctx, err)
}

// discardFirmware removes the UEFI variables and the TPM state that a failed migration has left on this host.
func discardFirmware(ctx context.Context, a *Agent, j *job) error {
	vm, id, err := firmwareJob(j)
	if err != nil {
		return err
	}
	return a.hypervisor.DiscardFirmware(ctx, vm, id)
}

// recordMigration deletes the entry of a VM that has migrated.
func recordMigration(a *Agent, j *job, out *wire.Finish) error {
	if j.VM == nil || out.Outcome != wire.Done {
		return nil
	}
	return a.state.removeVM(j.VM.ID)
}

// sentDisk records the state of a disk's file before a job sends it.
type sentDisk struct {
	Transfer fleet.TransferID `json:"transfer"`
	Stamp    string           `json:"stamp"` // only the backend reads it
}

// maxSentDisks limits the stored records, far above the number of concurrent transfers. A job whose record is missing
// fails without losing data.
const maxSentDisks = 256

// recordSentDisk records the stamp of a disk's file before the file is sent. The stamp identifies the content.
func (m *stateFile) recordSentDisk(id fleet.TransferID, stamp string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append(slices.DeleteFunc(slices.Clone(m.data.Sent), func(s sentDisk) bool { return s.Transfer == id }), sentDisk{id, stamp})
	m.data.Sent = all[max(0, len(all)-maxSentDisks):]
	return m.save()
}

// sentDiskStamp returns the recorded stamp of a disk's file; empty: none.
func (m *stateFile) sentDiskStamp(id fleet.TransferID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.data.Sent, func(s sentDisk) bool { return s.Transfer == id }); i >= 0 {
		return m.data.Sent[i].Stamp
	}
	return ""
}
