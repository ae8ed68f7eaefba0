package mock

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// A simulated file is sent as one line that describes the file, followed by the file's bytes.

// FailSend in the name of a VM or of a received volume makes the destination storage full halfway through the transfer.
const FailSend = "fail-send"

// piecesOf returns the file's pieces and their total size in bytes. The pieces are small, so that there are several.
func (h *Host) piecesOf(f *file) (transfer.Pieces, int64) {
	text := []byte(fmt.Sprintf("%s %d %d\n%s", f.Format, f.CapacityBytes, f.AllocBytes, f.dataText()))
	return func(ctx context.Context, do func(int64, []byte, int64) error) error {
		for at := 0; at < len(text); {
			n := min(max(1, len(text)/moveSteps), len(text)-at)
			if err := h.waitDelay(ctx, 0.1); err != nil {
				return err
			}
			if err := do(int64(at), text[at:at+n], int64(n)); err != nil {
				return err
			}
			at += n
		}
		return nil
	}, int64(len(text))
}

// parsePieces parses the bytes that piecesOf returns.
func parsePieces(text []byte) (v fleet.Volume, data string, err error) {
	line, rest, ok := bytes.Cut(text, []byte{'\n'})
	if _, err := fmt.Sscanf(string(line), "%s %d %d", &v.Format, &v.CapacityBytes, &v.AllocBytes); err != nil || !ok {
		return v, "", fleet.Errorf(fleet.Invalid, "The file that was sent is not an image.")
	}
	return v, string(rest), nil
}

// memorySink is a file in memory.
type memorySink struct{ data []byte }

func (s *memorySink) WriteAt(p []byte, at int64) (int, error) {
	if more := int(at) + len(p) - len(s.data); more > 0 {
		s.data = append(s.data, make([]byte, more)...)
	}
	return copy(s.data[at:], p), nil
}

func (s *memorySink) Truncate(size int64) error {
	s.data = append(s.data, make([]byte, max(0, int(size)-len(s.data)))...)[:size]
	return nil
}

func (s *memorySink) Writeback(int64, int64) {}

func (s *memorySink) Sync() error { return nil }

// SendVolume implements hypervisor.Storage.
func (h *Host) SendVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	var pieces transfer.Pieces
	var size int64
	var sum hypervisor.VolumeChecksum
	err := h.withVolumeOfJob(ctx, in, func(p *pool, f *file) error {
		if f == nil {
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		}
		if err := f.checkSelfContained(); err != nil {
			return err
		}
		pieces, size = h.piecesOf(f)
		sum = hypervisor.VolumeChecksum{Ref: in.Ref(), SHA256: f.dataDigest(), FileStamp: f.fileStamp()}
		return h.refuseFileOfRunningGuest(p, f)
	})
	if err != nil {
		return err
	}
	if err := in.Send(ctx, pieces, size); err != nil {
		return err
	}
	return in.RecordChecksums(sum)
}

// ReceiveVolume implements hypervisor.Storage.
func (h *Host) ReceiveVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	made := false
	err := h.withVolumeOfJob(ctx, in, func(_ *pool, f *file) error {
		made = f != nil && in.RecordedFile != "" && f.identityText() == in.RecordedFile
		if f != nil && !made {
			return hypervisor.RefuseTakenVolumeName(in.Name, in.Pool.Name)
		}
		return nil
	})
	if err != nil || made {
		return err
	}
	to := &memorySink{}
	if _, err := in.Receive(ctx, to, 1<<40); err != nil {
		return err
	}
	v, data, err := parsePieces(to.data)
	if err != nil {
		return err
	}
	own := file{Volume: v, bytes: data}
	if want, has := strings.CutPrefix(in.Params.Checksum, "sha256:"); has && want != own.dataDigest() {
		return hypervisor.RefuseDifferentCopy(in.Name, own.dataDigest(), want)
	}
	if nameContains(in.Name, FailSend) {
		return fleet.Errorf(fleet.Conflict, "The pool is full: No space left on device.")
	}
	err = h.makeVolume(ctx, in, func(*pool) (fleet.Volume, error) { return v, nil })
	if err != nil {
		return err
	}
	var sum hypervisor.VolumeChecksum
	err = h.withVolumeOfJob(ctx, in, func(_ *pool, f *file) error {
		if f == nil {
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		}
		f.bytes = data
		sum = hypervisor.VolumeChecksum{Ref: in.Ref(), SHA256: f.dataDigest(), FileStamp: f.fileStamp()}
		return nil
	})
	if err != nil {
		return err
	}
	return in.RecordChecksums(sum)
}

// MigrateVM implements hypervisor.VMs.
func (h *Host) MigrateVM(ctx context.Context, in hypervisor.MigrateVMWork) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	there, sent, err := h.migratingFiles(in)
	switch {
	case err != nil:
		return err
	case !there:
		return h.migrateUndefinedVM(ctx, in)
	}
	for i, d := range in.Params.Disks {
		switch in.SentStamp(d) {
		case sent[i].dataText():
		case "":
			if err := in.RecordSending(d, sent[i].dataText()); err != nil {
				return err
			}
		default:
			return hypervisor.RefuseChangedVM(in.VM.Name)
		}
		pieces, size := h.piecesOf(&sent[i])
		if err := in.Send(ctx, d, pieces, size); err != nil {
			return err
		}
	}
	if err := in.WaitDisksArrived(ctx); err != nil {
		return err
	}
	now, after, err := h.migratingFiles(in)
	if err != nil {
		return err
	}
	for i := range after {
		if !now || after[i].dataText() != sent[i].dataText() {
			return hypervisor.RefuseChangedVM(in.VM.Name)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.guests, in.VM.ID)
	delete(h.seeds, in.VM.ID)
	h.notify()
	return nil
}

// migrateUndefinedVM handles a VM without a definition.
func (h *Host) migrateUndefinedVM(ctx context.Context, in hypervisor.MigrateVMWork) error {
	if err := in.WaitDisksArrived(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range in.Params.Disks {
		p, err := h.activePool(d.Disk.PoolID, in.Pools)
		if err != nil {
			return err
		}
		if f := p.dir.files[d.Disk.Volume]; f != nil && f.dataText() != in.SentStamp(d) {
			return hypervisor.RefuseChangedVM(in.VM.Name)
		}
	}
	return nil
}

// migratingFiles returns the files of the disks of a guest that may migrate. defined reports that the guest is defined.
func (h *Host) migratingFiles(in hypervisor.MigrateVMWork) (defined bool, files []file, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[in.VM.ID]
	switch {
	case !ok:
		return false, nil, nil
	case g.isRunning():
		return true, nil, hypervisor.RefuseMigration(in.VM.Name, "the VM is running. Shut down the VM first.")
	case in.VM.Spec.Firmware == fleet.UEFI:
		return true, nil, hypervisor.RefuseMigration(in.VM.Name, "a migration does not copy the firmware's settings file (NVRAM).")
	}
	for _, d := range in.VM.Spec.Disks {
		if !slices.Contains(in.Params.Stay, d.Ref()) && !slices.ContainsFunc(in.Params.Disks, func(o fleet.MigratingDisk) bool { return o.Disk == d.Ref() }) {
			return true, nil, hypervisor.RefuseMigration(in.VM.Name, "the migration job does not list the disk %s.", d.Volume)
		}
	}
	for _, d := range in.Params.Disks {
		p, err := h.activePool(d.Disk.PoolID, in.Pools)
		if err != nil {
			return true, nil, err
		}
		f := p.dir.files[d.Disk.Volume]
		switch {
		case f == nil || !definitionHasVolume(g.persistent, d.Disk):
			return true, nil, hypervisor.NoVolumeError(d.Disk.Volume, poolNameOf(in.Pools, d.Disk.PoolID))
		case f.Backing != "" || f.hasExternalData:
			return true, nil, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the disk's file refers to %s. Merge that file first.", f.Name, f.Backing)
		}
		files = append(files, *f)
	}
	return true, files, nil
}
