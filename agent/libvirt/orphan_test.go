//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// statusFileOf returns the path of libvirt's status file of the running guest.
func statusFileOf(vm fleet.VM) string { return filepath.Join("/run/libvirt/qemu", vm.Name+".xml") }

// qemuPIDOf returns the process ID of the guest's QEMU; 0 if it never started.
func qemuPIDOf(t *testing.T, vm fleet.VM) int {
	t.Helper()
	text, err := os.ReadFile(strings.TrimSuffix(statusFileOf(vm), ".xml") + ".pid")
	if err != nil {
		return 0
	}
	return must(strconv.Atoi(strings.TrimSpace(string(text))))
}

// killQEMUProcess kills the process and waits for its end.
func killQEMUProcess(t *testing.T, pid int) {
	t.Helper()
	_ = syscall.Kill(pid, syscall.SIGKILL)
	waitFor(t, "QEMU has ended", func() bool {
		args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		return err != nil || len(args) == 0 // a zombie has an empty command line
	})
}

// isLostByLibvirt reports whether the host reports that libvirt has lost the guest.
func (s *snapper) isLostByLibvirt() bool {
	s.t.Helper()
	return slices.ContainsFunc(s.status().Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultLost })
}

// libvirt was killed while it wrote a status file, and later rejects that file. The guest keeps running while libvirt
// reports the guest as off. The host reports this fault and refuses every job for the guest. The steps in the fault's
// text recover the guest.
func TestJobsRefusedForGuestLibvirtHasLost(t *testing.T) {
	s := newSnapper(t)
	s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
	pid := qemuPIDOf(t, s.vm)
	stopLibvirtd(t)
	original := must(os.ReadFile(statusFileOf(s.vm)))
	// libvirt 9.0 leaves this mirror in the status file if libvirtd is killed at the start of a snapshot's merge.
	mirror := fmt.Sprintf("<mirror type='file' job=''><format type='qcow2'/><source file='%s'/></mirror>\n        <target dev='vda'",
		filepath.Join(s.pool.Spec.Path, "disk.qcow2"))
	torn := strings.Replace(string(original), "<target dev='vda'", mirror, 1)
	s.requireNoError(os.WriteFile(statusFileOf(s.vm), []byte(torn), 0o600))
	t.Cleanup(func() { killQEMUProcess(t, pid) }) // a guest that libvirt has lost would run forever
	startLibvirtd(t)
	waitFor(t, "the fault is reported", func() bool {
		st, _, err := s.VM(t.Context(), s.vm.ID)
		return err == nil && slices.Contains(st.Faults, hypervisor.GuestLostByLibvirtFault(pid, statusFileOf(s.vm)))
	})
	if out, err := tryVirsh("domstate", string(s.vm.ID)); err != nil || strings.TrimSpace(out) != "shut off" {
		t.Fatalf("libvirt still knows the guest as running: %s, %v", out, err)
	}
	for what, err := range map[string]error{
		"start":    s.StartVM(t.Context(), s.vm.ID),
		"stop":     s.StopVM(t.Context(), s.vm.ID),
		"edit":     s.ApplyVM(t.Context(), applyJob(s.vm, s.pool)),
		"snapshot": s.TakeSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "one"})),
		"delete":   s.DeleteVM(t.Context(), s.vm, []fleet.Pool{s.pool}, true),
	} {
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), fmt.Sprintf("its QEMU (process %d) is still running", pid)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the guest's QEMU: %v", err)
	}
	stopLibvirtd(t)
	s.requireNoError(os.WriteFile(statusFileOf(s.vm), original, 0o600))
	startLibvirtd(t)
	waitFor(t, "libvirt knows the running guest again", func() bool {
		st, _, err := s.VM(t.Context(), s.vm.ID)
		return err == nil && st.Power == fleet.Running && len(st.Faults) == 0
	})
	if now := qemuPIDOf(t, s.vm); now != pid {
		t.Errorf("QEMU's process ID is %d, was %d", now, pid)
	}
	s.takeSnapshot(false)
}
