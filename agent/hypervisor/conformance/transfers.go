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

// sentFile is a file in transfer between two hosts.
type sentFile struct {
	data []byte
	size int64
}

// send is a Send function that stores the data in p.
func (p *sentFile) send(ctx context.Context, pieces transfer.Pieces, size int64) error {
	p.size, p.data = size, make([]byte, size)
	return pieces(ctx, func(at int64, block []byte, _ int64) error {
		copy(p.data[at:], block)
		return nil
	})
}

// receive is a Receive function that delivers the first half of the data and then, as after a lost connection, all
// data.
func (p *sentFile) receive(_ context.Context, dst transfer.Sink, room int64) (hypervisor.ReceivedFile, error) {
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

// sendVolume sends the volume and returns the sent file.
func (h *testHost) sendVolume(p fleet.Pool, name string) *sentFile {
	h.t.Helper()
	out := &sentFile{}
	w := recordedChecksums{}.recordingJob(h.newVolumeJob(p, name, fleet.VolumeParams{Source: name}))
	w.Send = out.send
	h.requireNoError("send "+name, h.SendVolume(h.ctx, w))
	return out
}

// receiveJob returns the job that receives the sent file.
func (h *testHost) receiveJob(in *sentFile, to fleet.Pool, name string, known recordedChecksums, o fleet.VolumeParams) hypervisor.VolumeWork {
	w := known.recordingJob(h.newVolumeJob(to, name, o))
	w.Receive = in.receive
	return w
}

func testSendAndReceiveVolume(t *testing.T, h *testHost) {
	from, to, known := h.newPool(), h.newPool(), recordedChecksums{}
	for _, kind := range []ImageKind{Qcow2, Raw, ISO} {
		name := "golden-" + string(kind)
		if kind == ISO {
			name = "tools.iso"
		}
		h.harness.AddImage(t, from, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		in := h.sendVolume(from, name)
		h.requireNoError("hash", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(from, name, fleet.VolumeParams{}))))
		source := h.volumeWithChecksums(known, from, name)
		w := h.receiveJob(in, to, "copy-"+name, known, fleet.VolumeParams{Checksum: "sha256:" + source.SHA256, Transfer: &fleet.TransferParams{Check: true}})
		made := ""
		w.RecordFile = func(file string) error { made = file; return nil }
		h.requireNoError("receive "+name, h.ReceiveVolume(h.ctx, w))
		own := h.volumeWithChecksums(known, to, "copy-"+name)
		if own.SHA256 != source.SHA256 || own.Format != source.Format || own.CapacityBytes != source.CapacityBytes {
			t.Errorf("the received volume is %+v, want the checksum, format and size of %+v", own, source)
		}
		if sum := volumeChecksum(t, to, "copy-"+name); sum != "" && sum != own.SHA256 {
			t.Errorf("the file %s has the checksum %s, but the report has %s", name, sum, own.SHA256)
		}
		w.Receive = func(context.Context, transfer.Sink, int64) (hypervisor.ReceivedFile, error) {
			t.Error("a received file is received again")
			return hypervisor.ReceivedFile{}, errors.New("again")
		}
		w.RecordedFile = made
		h.requireNoError("repeat the job", h.ReceiveVolume(h.ctx, w))
		w.RecordedFile = ""
		h.requireRefusal("receive to the name of an existing volume", h.ReceiveVolume(h.ctx, w), "has a volume named")
	}
	vm := h.runningVM(newDisk(from))
	w := known.recordingJob(h.newVolumeJob(from, vm.Spec.Disks[0].Volume, fleet.VolumeParams{}))
	w.Send = (&sentFile{}).send
	h.requireRefusal("send a disk of a running guest", h.SendVolume(h.ctx, w), vm.Name)
	h.harness.AddImage(t, from, Image{Name: "layer.qcow2", Kind: Qcow2Backing, SizeBytes: 4 << 20})
	w = known.recordingJob(h.newVolumeJob(from, "layer.qcow2", fleet.VolumeParams{}))
	w.Send = (&sentFile{}).send
	h.requireRefusal("send a volume with a backing file", h.SendVolume(h.ctx, w), "refers to")
	h.requireRefusal("send a missing volume", h.SendVolume(h.ctx, known.recordingJob(h.newVolumeJob(from, "nothing.qcow2", fleet.VolumeParams{}))), "nothing.qcow2")
}

func testReceivedVolumeVerified(t *testing.T, h *testHost) {
	from, to, known := h.newPool(), h.newPool(), recordedChecksums{}
	h.harness.AddImage(t, from, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	in := h.sendVolume(from, "golden.qcow2")
	h.requireRefusal("receive bytes that differ from the image", h.ReceiveVolume(h.ctx, h.receiveJob(in, to, "came.qcow2", known, fleet.VolumeParams{Checksum: "sha256:" + strings.Repeat("0", 64)})), "other bytes")
	h.wantNoVolume(to, "came.qcow2")
	page := &sentFile{data: []byte("<html>no image at all</html>\n" + strings.Repeat("x", 600))}
	page.size = int64(len(page.data))
	h.requireRefusal("receive a file that is not an image", h.ReceiveVolume(h.ctx, h.receiveJob(page, to, "came.iso", known, fleet.VolumeParams{})), "The file that was sent")
	h.wantNoVolume(to, "came.iso")
	lost := h.receiveJob(in, to, "came.qcow2", known, fleet.VolumeParams{})
	lost.Receive = func(_ context.Context, dst transfer.Sink, _ int64) (hypervisor.ReceivedFile, error) {
		_, err := dst.WriteAt(in.data[:len(in.data)/2], 0)
		return hypervisor.ReceivedFile{}, errors.Join(err, errors.New("the connection to the other host was lost"))
	}
	h.requireRefusal("receive half of the file", h.ReceiveVolume(h.ctx, lost), "was lost")
	h.wantNoVolume(to, "came.qcow2")
	if state, _ := find(h.hostState(to).Pools, func(r wire.PoolReport) bool { return r.Name == to.Name }); slices.ContainsFunc(state.Status.Volumes, func(v fleet.Volume) bool { return strings.Contains(v.Name, "came") }) {
		t.Errorf("the failed job left one of the volumes %+v", state.Status.Volumes)
	}
	h.requireNoError("receive the whole file", h.ReceiveVolume(h.ctx, h.receiveJob(in, to, "came.qcow2", known, fleet.VolumeParams{})))
}

// migrateJob returns the job that sends the VM's disks, and the sent files by transfer.
func (h *testHost) migrateJob(vm fleet.VM, to fleet.Pool) (hypervisor.MigrateVMWork, map[fleet.TransferID]*sentFile) {
	sentFiles := map[fleet.TransferID]*sentFile{}
	in := hypervisor.MigrateVMWork{
		VM: vm, Pools: h.pools, Params: fleet.MigrationParams{To: fleet.NewID[fleet.HostID](), ToName: "elsewhere"}, Progress: func(int, string) {},
		WaitArrived: func(context.Context) error { return nil },
	}
	stamps := map[fleet.TransferID]string{}
	in.SentStamp = func(file fleet.TransferID) string { return stamps[file] }
	in.RecordSending = func(file fleet.TransferID, stamp string) error { stamps[file] = stamp; return nil }
	for _, d := range vm.Spec.Disks {
		in.Params.Disks = append(in.Params.Disks, fleet.MigratingDisk{Disk: d.Ref(), To: fleet.Volref{PoolID: to.ID, Volume: "gone-" + d.Volume}, Transfer: fleet.NewID[fleet.TransferID]()})
	}
	in.Send = func(ctx context.Context, file fleet.TransferID, pieces transfer.Pieces, size int64) error {
		sentFiles[file] = &sentFile{}
		return sentFiles[file].send(ctx, pieces, size)
	}
	return in, sentFiles
}

func testColdMigration(t *testing.T, h *testHost) {
	from, to, known := h.newPool(), h.newPool(), recordedChecksums{}
	vm := h.definedVM(newDisk(from), newDisk(from))
	in, sentFiles := h.migrateJob(vm, to)
	h.requireNoError("leave", h.MigrateVM(h.ctx, in))
	if s, _, err := h.VM(h.ctx, vm.ID); err != nil || s.Power != fleet.Absent {
		t.Fatalf("the migrated VM is %+v, %v", s, err)
	}
	for _, d := range vm.Spec.Disks {
		h.wantVolume(from, d.Volume, "qcow2", d.SizeBytes)
	}
	in.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error {
		t.Error("a disk is sent again")
		return nil
	}
	h.requireNoError("repeat the job", h.MigrateVM(h.ctx, in))
	in.WaitArrived = func(context.Context) error { return errors.New("no host has the VM") }
	h.requireRefusal("before another host has the VM", h.MigrateVM(h.ctx, in), "no host has the VM")

	// The source host may also be the destination of a migration, so one host suffices for this test.
	next := vm
	next.Generation, next.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
	order := h.applyJob(next)
	for i, d := range in.Params.Disks {
		h.requireNoError("receive", h.ReceiveVolume(h.ctx, h.receiveJob(sentFiles[d.Transfer], to, d.To.Volume, known, fleet.VolumeParams{Transfer: &fleet.TransferParams{Check: true}})))
		next.Spec.Disks[i].PoolID, next.Spec.Disks[i].Volume = d.To.PoolID, d.To.Volume
		order.CreatedDisks = append(order.CreatedDisks, d.To)
	}
	order.VM = next
	h.cleanup("delete "+next.Name, func(ctx context.Context) error { return h.DeleteVM(ctx, next, h.pools, true) })
	h.requireNoError("apply", h.ApplyVM(h.ctx, order))
	h.requireNoError("start", h.StartVM(h.ctx, next.ID))
	s := h.wantStatus(next.ID, 2)
	if s.Power != fleet.Running || len(s.Disks) != 2 || len(s.Faults)+len(s.Drift) > 0 || *s.Disks[0].Volume != next.Spec.Disks[0].Ref() {
		t.Errorf("the started VM's status is %+v, want two disks and no fault or drift", s)
	}
	for _, d := range vm.Spec.Disks {
		h.requireNoError("delete the old disks", h.DeleteVolume(h.ctx, h.newVolumeJob(from, d.Volume, fleet.VolumeParams{})))
	}
}

// Data sent by an earlier call is valid only if nobody has written to the disk since. Here the agent ends, somebody
// uses the VM, and the job is repeated.
func testColdMigrationOfChangedVM(t *testing.T, h *testHost) {
	from, to := h.newPool(), h.newPool()
	for _, gone := range []bool{false, true} {
		vm := h.definedVM(newDisk(from))
		in, _ := h.migrateJob(vm, to)
		in.WaitArrived = func(context.Context) error { return errors.New("the agent ends here") }
		h.requireRefusal("interrupt the migration", h.MigrateVM(h.ctx, in), "the agent ends here")

		next := vm
		next.Generation, next.Spec.Disks = 2, slices.Clone(vm.Spec.Disks)
		next.Spec.Disks[0].SizeBytes *= 2
		h.apply(next)
		if gone {
			h.harness.UndefineVM(t, vm.ID)
		}
		in.WaitArrived = func(context.Context) error { return nil }
		// The other host already has all data, so Send does nothing.
		in.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error { return nil }
		h.requireRefusal("migrate a VM that changed after it was sent", h.MigrateVM(h.ctx, in), "while it was being sent")
		if !gone {
			h.wantPower(vm.ID, fleet.Stopped)
		}
		h.wantVolume(from, vm.Spec.Disks[0].Volume, "qcow2", next.Spec.Disks[0].SizeBytes)
		h.requireNoError("delete "+vm.Name, h.DeleteVM(h.ctx, next, h.pools, true))
	}
	vm := h.definedVM(newDisk(from))
	in, _ := h.migrateJob(vm, to)
	in.RecordSending = func(fleet.TransferID, string) error { return errors.New("state file not written") }
	in.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error {
		t.Error("the disk was sent without a record")
		return nil
	}
	h.requireRefusal("send without a record", h.MigrateVM(h.ctx, in), "state file not written")
}

func testColdMigrationRefused(t *testing.T, h *testHost) {
	from, to := h.newPool(), h.newPool()
	vm := h.definedVM(newDisk(from))
	whole := func(when string) {
		t.Helper()
		h.wantPower(vm.ID, fleet.Stopped)
		h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
		if t.Failed() {
			t.Fatal(when)
		}
	}
	lost, _ := h.migrateJob(vm, to)
	lost.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error {
		return errors.New("it was cut off")
	}
	h.requireRefusal("lose the connection", h.MigrateVM(h.ctx, lost), "cut off")
	whole("after a lost connection")
	late, _ := h.migrateJob(vm, to)
	late.WaitArrived = func(context.Context) error { return errors.New("the VM has not arrived") }
	h.requireRefusal("migrate without an arrival", h.MigrateVM(h.ctx, late), "has not arrived")
	whole("after a missing arrival")
	few, _ := h.migrateJob(vm, to)
	few.Params.Disks = nil
	h.requireRefusal("a job without the disk", h.MigrateVM(h.ctx, few), "does not list")
	whole("after a job without the disk")
	stopped, _ := h.migrateJob(vm, to)
	ctx, cancel := context.WithCancelCause(h.ctx)
	stopped.WaitArrived = func(context.Context) error { cancel(hypervisor.ErrCancelled); return nil }
	if err := h.MigrateVM(ctx, stopped); err == nil {
		t.Error("a cancelled migration succeeded")
	}
	whole("after the cancellation")
	started, _ := h.migrateJob(vm, to)
	started.WaitArrived = func(ctx context.Context) error { return h.StartVM(ctx, vm.ID) }
	h.requireRefusal("a guest that somebody starts during the job", h.MigrateVM(h.ctx, started), vm.Name)
	h.wantPower(vm.ID, fleet.Running)
	h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
	running, _ := h.migrateJob(vm, to)
	h.requireRefusal("a running guest", h.MigrateVM(h.ctx, running), "is running")
}
