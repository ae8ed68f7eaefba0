package conformance

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// parcel is a file in transfer between two hosts.
type parcel struct {
	data []byte
	size int64
}

// pack is a Send function that stores the data in the parcel.
func (p *parcel) pack(ctx context.Context, pieces transfer.Pieces, size int64) error {
	p.size, p.data = size, make([]byte, size)
	return pieces(ctx, func(at int64, block []byte, _ int64) error {
		copy(p.data[at:], block)
		return nil
	})
}

// unpack is an Arrive function that delivers the first half of the data and then, as after a lost connection, all data.
func (p *parcel) unpack(_ context.Context, dst transfer.Sink, room int64) (hypervisor.ReceivedFile, error) {
	if room <= 0 {
		return hypervisor.ReceivedFile{}, errors.New("no room")
	}
	for _, data := range [][]byte{p.data[:len(p.data)/2], p.data} {
		if err := dst.Truncate(0); err != nil {
			return hypervisor.ReceivedFile{}, err
		}
		for at := 0; at < len(data); at += 1 << 20 {
			block := data[at:min(len(data), at+1<<20)]
			if len(strings.Trim(string(block), "\x00")) == 0 {
				continue // a hole
			}
			if _, err := dst.WriteAt(block, int64(at)); err != nil {
				return hypervisor.ReceivedFile{}, err
			}
		}
	}
	if err := errors.Join(dst.Truncate(p.size), dst.Sync()); err != nil {
		return hypervisor.ReceivedFile{}, err
	}
	return hypervisor.ReceivedFile{Bytes: p.size, Sum: sha256.Sum256(p.data)}, nil
}

// packVolume returns the volume as another host would receive it.
func (h *host) packVolume(p fleet.Pool, name string) *parcel {
	h.t.Helper()
	out := &parcel{}
	w := sums{}.of(h.volumeJob(p, name, fleet.VolumeParams{Source: name}))
	w.Send = out.pack
	h.must("send "+name, h.SendVolume(h.ctx, w))
	return out
}

// receiveWork returns the job that receives the parcel.
func (h *host) receiveWork(in *parcel, to fleet.Pool, name string, known sums, o fleet.VolumeParams) hypervisor.VolumeWork {
	w := known.of(h.volumeJob(to, name, o))
	w.Arrive = in.unpack
	return w
}

func testTransfer(t *testing.T, h *host) {
	from, to, known := h.pool(), h.pool(), sums{}
	for _, kind := range []ImageKind{Qcow2, Raw, ISO} {
		name := "golden-" + string(kind)
		if kind == ISO {
			name = "tools.iso"
		}
		h.h.AddImage(t, from, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		in := h.packVolume(from, name)
		h.must("hash", h.HashVolume(h.ctx, known.of(h.volumeJob(from, name, fleet.VolumeParams{}))))
		source := h.reported(known, from, name)
		w := h.receiveWork(in, to, "copy-"+name, known, fleet.VolumeParams{Checksum: "sha256:" + source.SHA256, Transfer: &fleet.TransferParams{Check: true}})
		made := ""
		w.RecordFile = func(file string) error { made = file; return nil }
		h.must("receive "+name, h.ReceiveVolume(h.ctx, w))
		own := h.reported(known, to, "copy-"+name)
		if own.SHA256 != source.SHA256 || own.Format != source.Format || own.CapacityBytes != source.CapacityBytes {
			t.Errorf("the received file is %+v of %+v", own, source)
		}
		if sum := volumeSum(t, to, "copy-"+name); sum != "" && sum != own.SHA256 {
			t.Errorf("%s has the checksum %s, and is reported to have %s", name, sum, own.SHA256)
		}
		w.Arrive = func(context.Context, transfer.Sink, int64) (hypervisor.ReceivedFile, error) {
			t.Error("a received file is received again")
			return hypervisor.ReceivedFile{}, errors.New("again")
		}
		w.RecordedFile = made
		h.must("repeat the job", h.ReceiveVolume(h.ctx, w))
		w.RecordedFile = ""
		h.refused("receive to the name of an existing volume", h.ReceiveVolume(h.ctx, w), "has a volume named")
	}
	vm := h.runningVM(disk(from))
	w := known.of(h.volumeJob(from, vm.Spec.Disks[0].Volume, fleet.VolumeParams{}))
	w.Send = (&parcel{}).pack
	h.refused("send a disk of a running guest", h.SendVolume(h.ctx, w), vm.Name)
	h.h.AddImage(t, from, Image{Name: "layer.qcow2", Kind: Qcow2Backing, SizeBytes: 4 << 20})
	w = known.of(h.volumeJob(from, "layer.qcow2", fleet.VolumeParams{}))
	w.Send = (&parcel{}).pack
	h.refused("send a volume with a backing file", h.SendVolume(h.ctx, w), "refers to")
	h.refused("send a missing volume", h.SendVolume(h.ctx, known.of(h.volumeJob(from, "nothing.qcow2", fleet.VolumeParams{}))), "nothing.qcow2")
}

func testTransferVerified(t *testing.T, h *host) {
	from, to, known := h.pool(), h.pool(), sums{}
	h.h.AddImage(t, from, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	in := h.packVolume(from, "golden.qcow2")
	h.refused("receive bytes that differ from the image", h.ReceiveVolume(h.ctx, h.receiveWork(in, to, "came.qcow2", known, fleet.VolumeParams{Checksum: "sha256:" + strings.Repeat("0", 64)})), "other bytes")
	h.wantNoVolume(to, "came.qcow2")
	page := &parcel{data: []byte("<html>no image at all</html>\n" + strings.Repeat("x", 600))}
	page.size = int64(len(page.data))
	h.refused("receive a file that is not an image", h.ReceiveVolume(h.ctx, h.receiveWork(page, to, "came.iso", known, fleet.VolumeParams{})), "The file that was sent")
	h.wantNoVolume(to, "came.iso")
	lost := h.receiveWork(in, to, "came.qcow2", known, fleet.VolumeParams{})
	lost.Arrive = func(_ context.Context, dst transfer.Sink, _ int64) (hypervisor.ReceivedFile, error) {
		_, err := dst.WriteAt(in.data[:len(in.data)/2], 0)
		return hypervisor.ReceivedFile{}, errors.Join(err, errors.New("the connection to the other host was lost"))
	}
	h.refused("receive half of the file", h.ReceiveVolume(h.ctx, lost), "was lost")
	h.wantNoVolume(to, "came.qcow2")
	if state, _ := find(h.snapshot(to).Pools, func(r wire.PoolReport) bool { return r.Name == to.Name }); slices.ContainsFunc(state.Status.Volumes, func(v fleet.Volume) bool { return strings.Contains(v.Name, "came") }) {
		t.Errorf("the failed job left %+v", state.Status.Volumes)
	}
	h.must("receive the whole file", h.ReceiveVolume(h.ctx, h.receiveWork(in, to, "came.qcow2", known, fleet.VolumeParams{})))
}

// migrateJob returns the job that sends the VM's disks into parcels.
func (h *host) migrateJob(vm fleet.VM, to fleet.Pool) (hypervisor.MigrateVM, map[fleet.Volref]*parcel) {
	parcels := map[fleet.Volref]*parcel{}
	in := hypervisor.MigrateVM{
		VM: vm, Pools: h.pools, Order: fleet.MigrationParams{To: fleet.NewID[fleet.HostID](), ToName: "elsewhere"}, Progress: func(int, string) {},
		WaitArrived: func(context.Context) error { return nil },
	}
	stamps := map[fleet.TransferID]string{}
	in.SentStamp = func(d fleet.MigratingDisk) string { return stamps[d.Transfer] }
	in.RecordSending = func(d fleet.MigratingDisk, stamp string) error { stamps[d.Transfer] = stamp; return nil }
	for _, d := range vm.Spec.Disks {
		in.Order.Disks = append(in.Order.Disks, fleet.MigratingDisk{Disk: d.Ref(), To: fleet.Volref{PoolID: to.ID, Volume: "gone-" + d.Volume}, Transfer: fleet.NewID[fleet.TransferID]()})
	}
	in.Send = func(ctx context.Context, d fleet.MigratingDisk, pieces transfer.Pieces, size int64) error {
		parcels[d.To] = &parcel{}
		return parcels[d.To].pack(ctx, pieces, size)
	}
	return in, parcels
}

func testMigrate(t *testing.T, h *host) {
	from, to, known := h.pool(), h.pool(), sums{}
	vm := h.definedVM(disk(from), disk(from))
	in, parcels := h.migrateJob(vm, to)
	h.must("leave", h.MigrateVM(h.ctx, in))
	if s, _, err := h.VM(h.ctx, vm.ID); err != nil || s.Power != fleet.Absent {
		t.Fatalf("the migrated VM is %+v, %v", s, err)
	}
	for _, d := range vm.Spec.Disks {
		h.wantVolume(from, d.Volume, "qcow2", d.SizeBytes)
	}
	in.Send = func(context.Context, fleet.MigratingDisk, transfer.Pieces, int64) error {
		t.Error("a disk is sent again")
		return nil
	}
	h.must("repeat the job", h.MigrateVM(h.ctx, in))
	in.WaitArrived = func(context.Context) error { return errors.New("no host has the VM") }
	h.refused("before another host has the VM", h.MigrateVM(h.ctx, in), "no host has the VM")

	// The VM's new host may be the same host.
	next := vm
	next.Generation, next.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
	order := h.applyJob(next)
	for i, d := range in.Order.Disks {
		h.must("receive", h.ReceiveVolume(h.ctx, h.receiveWork(parcels[d.To], to, d.To.Volume, known, fleet.VolumeParams{Transfer: &fleet.TransferParams{Check: true}})))
		next.Spec.Disks[i].PoolID, next.Spec.Disks[i].Volume = d.To.PoolID, d.To.Volume
		order.CreatedDisks = append(order.CreatedDisks, d.To)
	}
	order.VM = next
	h.cleanup("delete "+next.Name, func(ctx context.Context) error { return h.DeleteVM(ctx, next, h.pools, true) })
	h.must("apply", h.ApplyVM(h.ctx, order))
	h.must("start", h.StartVM(h.ctx, next.ID))
	s := h.status(next.ID, 2)
	if s.Power != fleet.Running || len(s.Disks) != 2 || len(s.Faults)+len(s.Drift) > 0 || *s.Disks[0].Volume != next.Spec.Disks[0].Ref() {
		t.Errorf("the migrated VM started as %+v", s)
	}
	for _, d := range vm.Spec.Disks {
		h.must("delete the old disks", h.DeleteVolume(h.ctx, h.volumeJob(from, d.Volume, fleet.VolumeParams{})))
	}
}

// Data sent by an earlier call is valid only if nobody has written to the disk since. Here the agent ends, somebody
// uses the VM, and the job is repeated.
func testMigrateChangedVM(t *testing.T, h *host) {
	from, to := h.pool(), h.pool()
	for _, gone := range []bool{false, true} {
		vm := h.definedVM(disk(from))
		in, _ := h.migrateJob(vm, to)
		in.WaitArrived = func(context.Context) error { return errors.New("the agent ends here") }
		h.refused("interrupt the migration", h.MigrateVM(h.ctx, in), "the agent ends here")

		next := vm
		next.Generation, next.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
		next.Spec.Disks[0].SizeBytes *= 2
		h.apply(next)
		if gone {
			h.h.Undefine(t, vm.ID)
		}
		in.WaitArrived = func(context.Context) error { return nil }
		// The other host has all data.
		in.Send = func(context.Context, fleet.MigratingDisk, transfer.Pieces, int64) error { return nil }
		h.refused("migrate a VM that changed after it was sent", h.MigrateVM(h.ctx, in), "while it was being sent")
		if !gone {
			h.wantPower(vm.ID, fleet.Stopped)
		}
		h.wantVolume(from, vm.Spec.Disks[0].Volume, "qcow2", next.Spec.Disks[0].SizeBytes)
		h.must("delete "+vm.Name, h.DeleteVM(h.ctx, next, h.pools, true))
	}
	vm := h.definedVM(disk(from))
	in, _ := h.migrateJob(vm, to)
	in.RecordSending = func(fleet.MigratingDisk, string) error { return errors.New("state file not written") }
	in.Send = func(context.Context, fleet.MigratingDisk, transfer.Pieces, int64) error {
		t.Error("the disk was sent without a record")
		return nil
	}
	h.refused("send without a record", h.MigrateVM(h.ctx, in), "state file not written")
}

func testMigrateRefused(t *testing.T, h *host) {
	from, to := h.pool(), h.pool()
	vm := h.definedVM(disk(from))
	whole := func(when string) {
		t.Helper()
		h.wantPower(vm.ID, fleet.Stopped)
		h.wantDisk(vm, vm.Spec.Disks[0].Ref())
		if t.Failed() {
			t.Fatal(when)
		}
	}
	lost, _ := h.migrateJob(vm, to)
	lost.Send = func(context.Context, fleet.MigratingDisk, transfer.Pieces, int64) error {
		return errors.New("it was cut off")
	}
	h.refused("lose the connection", h.MigrateVM(h.ctx, lost), "cut off")
	whole("after a lost connection")
	late, _ := h.migrateJob(vm, to)
	late.WaitArrived = func(context.Context) error { return errors.New("the VM has not arrived") }
	h.refused("migrate without an arrival", h.MigrateVM(h.ctx, late), "has not arrived")
	whole("after a missing arrival")
	few, _ := h.migrateJob(vm, to)
	few.Order.Disks = nil
	h.refused("a job without the disk", h.MigrateVM(h.ctx, few), "does not list")
	whole("after a job without the disk")
	stopped, _ := h.migrateJob(vm, to)
	ctx, cancel := context.WithCancelCause(h.ctx)
	stopped.WaitArrived = func(context.Context) error { cancel(hypervisor.ErrStopped); return nil }
	if err := h.MigrateVM(ctx, stopped); err == nil {
		t.Error("a cancelled migration succeeded")
	}
	whole("after the cancellation")
	started, _ := h.migrateJob(vm, to)
	started.WaitArrived = func(ctx context.Context) error { return h.StartVM(ctx, vm.ID) }
	h.refused("a guest that somebody starts during the job", h.MigrateVM(h.ctx, started), vm.Name)
	h.wantPower(vm.ID, fleet.Running)
	h.wantDisk(vm, vm.Spec.Disks[0].Ref())
	running, _ := h.migrateJob(vm, to)
	h.refused("a running guest", h.MigrateVM(h.ctx, running), "is running")
}
