package mock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	to := &transfer.MemorySink{Max: 1 << 40}
	if _, err := in.Receive(ctx, to, 1<<40); err != nil {
		return err
	}
	v, data, err := parsePieces(to.Data)
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
		if err := in.RecordContent(d.Transfer, sent[i].dataText()); err != nil {
			return err
		}
		pieces, size := h.piecesOf(&sent[i])
		if err := in.Send(ctx, d.Transfer, pieces, size); err != nil {
			return err
		}
	}
	state, err := h.stateToSend(in)
	if err != nil {
		return err
	}
	if id := in.Params.Firmware; id != "" {
		if err := in.RecordContent(id, state); err != nil {
			return err
		}
		err := in.Send(ctx, id, func(_ context.Context, do func(int64, []byte, int64) error) error {
			return do(0, []byte(state), int64(len(state)))
		}, int64(len(state)))
		if err != nil {
			return err
		}
	}
	if err := in.WaitArrived(ctx); err != nil {
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
	if later, err := h.stateToSend(in); err != nil || later != state {
		return cmp.Or(err, hypervisor.RefuseChangedVM(in.VM.Name))
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
	if err := in.WaitArrived(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range in.Params.Disks {
		p, err := h.activePool(d.Disk.PoolID, in.Pools)
		if err != nil {
			return err
		}
		if f := p.dir.files[d.Disk.Volume]; f != nil && f.dataText() != in.SentStamp(d.Transfer) {
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
	case in.Params.Firmware == "" && g.persistent.spec.HasFirmwareState():
		return true, nil, hypervisor.RefuseFirmwareNotListed(in.VM.Name)
	case g.applied.Adopted && !in.Params.Definition:
		return true, nil, hypervisor.RefuseDefinitionNotListed(in.VM.Name)
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

// receivedFirmware is the content of UEFI variables and TPM state that a transfer has brought, and the definition of an
// adopted VM.
type receivedFirmware struct {
	transfer   fleet.TransferID
	content    string
	definition *sentDefinition // nil: the VM was not adopted
}

// sentDefinition is the definition of an adopted VM on its way to another host.
type sentDefinition struct {
	Name       string                   `json:"name"`
	Generation int64                    `json:"generation"`
	Applied    hypervisor.AppliedRecord `json:"applied"`
	Spec       fleet.VMSpec             `json:"spec"`
	Pools      map[fleet.PoolID]string  `json:"pools"`
	Verbatim   []string                 `json:"verbatim"`
}

// firmwareHead begins a simulated file of UEFI variables and TPM state, which may be empty. definitionMark begins the
// definition in it.
const (
	firmwareHead   = "firmware "
	definitionMark = "\x00"
)

// stateToSend returns the file with the UEFI variables, the TPM state and the definition of an adopted VM.
func (h *Host) stateToSend(in hypervisor.MigrateVMWork) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[in.VM.ID]
	if g == nil {
		return "", hypervisor.RefuseChangedVM(in.VM.Name)
	}
	out := firmwareHead + g.firmware
	if !in.Params.Definition {
		return out, nil
	}
	d := sentDefinition{g.name, g.generation, g.applied, in.Params.SpecOnTarget(g.persistent.spec), maps.Clone(g.persistent.pools), g.verbatim}
	d.Applied.Spec, d.Applied.Pools = in.Params.SpecOnTarget(g.applied.Spec), maps.Clone(g.applied.Pools)
	for _, p := range in.Pools {
		if slices.ContainsFunc(in.Params.Disks, func(o fleet.MigratingDisk) bool { return o.To.PoolID == p.ID }) {
			d.Pools[p.ID], d.Applied.Pools[p.ID] = volumePathPrefix(p.Spec), hypervisor.AppliedPool{Name: p.Name, Path: p.Spec.Path}
		}
	}
	named := d.Spec.Pools()
	maps.DeleteFunc(d.Pools, func(id fleet.PoolID, _ string) bool { return !slices.Contains(named, id) })
	maps.DeleteFunc(d.Applied.Pools, func(id fleet.PoolID, _ hypervisor.AppliedPool) bool { return !slices.Contains(named, id) })
	text, err := json.Marshal(d)
	return out + definitionMark + string(text), err
}

// defineReceived defines an adopted VM as a cold migration has brought it, if there is one. The caller holds h.mu.
func (h *Host) defineReceived(in hypervisor.ApplyWork) bool {
	received := h.receivedFirmware[in.VM.ID]
	d := received.definition
	if d == nil {
		return false
	}
	h.guests[in.VM.ID] = &guest{
		id: in.VM.ID, managed: true, generation: d.Generation, applied: d.Applied, name: d.Name, power: fleet.Stopped,
		persistent: guestDefinition{spec: d.Spec, pools: d.Pools}, verbatim: d.Verbatim, firmware: received.content,
	}
	return true
}

// firmwareOf returns the content of the VM's UEFI variables and TPM state; empty: none.
func (h *Host) firmwareOf(id fleet.VMID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.guests[id]; g != nil {
		return g.firmware
	}
	return ""
}

// ReceiveFirmware implements hypervisor.VMs.
func (h *Host) ReceiveFirmware(ctx context.Context, in hypervisor.ReceiveFirmwareWork) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	known, done := h.guests[in.VM] != nil, h.receivedFirmware[in.VM].transfer == in.Transfer
	h.mu.Unlock()
	switch {
	case known:
		return hypervisor.RefuseKnownVM("the VM")
	case done:
		return nil
	}
	data, err := in.Receive(ctx, 1<<20)
	if err != nil {
		return err
	}
	content, ok := strings.CutPrefix(string(data), firmwareHead)
	if !ok {
		return errors.New("the source host sends invalid firmware state")
	}
	content, text, has := strings.Cut(content, definitionMark)
	if err := in.CheckDefinitionSent(has); err != nil {
		return err
	}
	var definition *sentDefinition
	if has {
		if err := json.Unmarshal([]byte(text), &definition); err != nil {
			return fmt.Errorf("the source host sends an invalid definition: %w", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.receivedFirmware[in.VM] = receivedFirmware{in.Transfer, content, definition}
	return nil
}

// DiscardFirmware implements hypervisor.VMs.
func (h *Host) DiscardFirmware(ctx context.Context, vm fleet.VMID, id fleet.TransferID) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.receivedFirmware[vm].transfer == id {
		delete(h.receivedFirmware, vm)
	}
	return nil
}
