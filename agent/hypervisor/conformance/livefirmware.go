package conformance

import (
	"context"
	"errors"
	"os"
	"testing"

	"quantix/internal/fleet"
)

// firmwareMark is written into a part of the UEFI variables file that no firmware uses: the event log after the 256 KiB
// of the variables.
const (
	firmwareMark       = "kept by the migration"
	firmwareMarkOffset = 0x40800
)

// testLiveMigrationOfFirmwareState migrates a VM with UEFI and a TPM, whose state is in files of its host: first in
// vain, and then there and back.
func testLiveMigrationOfFirmwareState(t *testing.T, p *twoHosts) {
	if p.FirmwareFiles == nil {
		t.Skip("this host has no firmware")
	}
	vm := p.first.newVM(newDisk(p.newSharedPool()))
	vm.Spec.Firmware, vm.Spec.Security.TPM = fleet.UEFI, true
	p.second.cleanup("delete "+vm.Name, func(ctx context.Context) error { return p.second.DeleteVM(ctx, vm, p.second.pools, false) })
	p.first.apply(vm)
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID)) // the start creates the files
	p.first.requireNoError("stop", p.first.StopVM(p.first.ctx, vm.ID))
	variables, tpm := p.FirmwareFiles(t, vm.ID, 0)
	file, err := os.OpenFile(variables, os.O_WRONLY, 0)
	p.first.requireNoError("open the UEFI variables", err)
	_, err = file.WriteAt([]byte(firmwareMark), firmwareMarkOffset)
	p.first.requireNoError("write the mark", errors.Join(err, file.Close()))
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))

	r := p.newLiveRun(vm)
	r.source.Params.RateBytes = 1 << 20
	r.source.Progress = func(percent int, _ string) {
		if percent > 0 {
			r.cut()
		}
	}
	if sent, received := p.migrate(r); sent == nil || received == nil {
		t.Errorf("a migration whose connection was cut ended with %v; %v, want errors", sent, received)
	}

	before := readFile(t, tpm)
	if sent, received := p.migrate(p.newLiveRun(vm)); sent != nil || received != nil {
		t.Fatalf("the migration failed: %v; %v", sent, received)
	}
	p.second.wantPower(vm.ID, fleet.Running)
	thereVariables, thereTPM := p.FirmwareFiles(t, vm.ID, 1)
	if got := readFile(t, thereVariables); len(got) < firmwareMarkOffset+len(firmwareMark) || string(got[firmwareMarkOffset:][:len(firmwareMark)]) != firmwareMark {
		t.Error("the UEFI variables on the target lack the mark")
	}
	// The firmware may have used the TPM meanwhile. The state of another TPM has other keys, so most of it differs.
	if after, differ := readFile(t, thereTPM), 0; len(after) != len(before) {
		t.Errorf("the TPM's state on the target has %d bytes, want %d", len(after), len(before))
	} else {
		for i := range after {
			if after[i] != before[i] {
				differ++
			}
		}
		if differ > len(after)/10 {
			t.Errorf("%d of %d bytes of the TPM's state differ from those of the source", differ, len(after))
		}
	}
	p.second.requireNoError("stop", p.second.StopVM(p.second.ctx, vm.ID))
	p.second.requireNoError("start", p.second.StartVM(p.second.ctx, vm.ID))
	if status := p.second.wantPower(vm.ID, fleet.Running); len(status.Faults)+len(status.Drift)+len(status.NextBoot) > 0 {
		t.Errorf("the VM's status on the target is %+v, want no fault, drift or pending field", status)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
