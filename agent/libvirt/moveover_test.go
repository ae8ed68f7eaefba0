//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"quantix/internal/fleet"
)

// A libvirtd killed during a pivot may report the copy as running forever, or may lose the guest. The job then asks
// QEMU for the disk in use, and no write of the guest is lost.
func TestDiskMigrationSurvivesLibvirtdKilledDuringPivot(t *testing.T) {
	for _, a := range []struct {
		name  string
		qemu  string // the command that QEMU gets for the copy while libvirtd is down
		lost  bool   // libvirt cannot read its status file of the guest
		want  string // why the job is refused; empty: success
		moved bool   // the guest uses the new disk
	}{
		{"pivoted, libvirt reports the old path", "job-complete", false, "", true},
		{"not pivoted, libvirt reports a running copy", "job-cancel", false, "Shut the guest down", false},
		{"pivoted, libvirt lost the guest", "job-complete", true, "libvirt has lost the VM", true},
		{"not pivoted, libvirt lost the guest", "job-cancel", true, "libvirt has lost the VM", false},
	} {
		t.Run(a.name, func(t *testing.T) {
			m := newDiskMoveFixture(t, 2)
			to := m.newTargetPool("")
			m.apply(m.vm)
			m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
			pid := qemuPIDOf(t, m.vm)
			t.Cleanup(func() { killQEMUProcess(t, pid) })
			in := m.moveJob(to, 0)
			in.RecordDisk = func(fleet.Volref) error { panic(errAgentKilled) } // the pivot is recorded, but QEMU gets no command
			requireInterrupted(t, func() error { return m.MoveDisk(t.Context(), in) })
			stopLibvirtd(t)
			back := sync.OnceFunc(func() { startLibvirtd(t) })
			t.Cleanup(back)
			q := newQEMUMonitor(t, m.vm)
			q.endMerge(a.qemu)
			q.write('b')
			q.sock.Close()
			if a.lost {
				text := regexp.MustCompile(`<mirror type='file'.* job='[^>]*>`).ReplaceAllString(string(must(os.ReadFile(statusFileOf(m.vm)))), "<mirror type='file' job=''>")
				m.requireNoError(os.WriteFile(statusFileOf(m.vm), []byte(text), 0o600))
			}
			back()
			waitFor(t, "the backend has reconnected to libvirt", func() bool { _, _, err := m.VM(t.Context(), m.vm.ID); return err == nil })
			err := m.MoveDisk(t.Context(), m.moveJob(to, 0))
			if a.want == "" && err != nil || a.want != "" && (fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), a.want)) {
				t.Fatalf("the retried job: %v, want %q", err, a.want)
			}
			killQEMUProcess(t, pid)
			at := m.pool
			if a.moved {
				at = to
			}
			waitFor(t, "the guest is off", func() bool {
				s, _, err := m.VM(t.Context(), m.vm.ID)
				return err == nil && s.Power != fleet.Running && len(s.Faults) == 0
			})
			m.wantDiskInPool("off", at)
			run(t, "qemu-io", "-r", "-f", "qcow2", "-c", "read -P 98 0 64k", filepath.Join(at.Spec.Path, "disk.qcow2"))
		})
	}
}
