//go:build linux && ordeal

package libvirt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// qemuMonitor talks to a guest's QEMU directly while libvirtd is stopped.
type qemuMonitor struct {
	t       *testing.T
	sock    net.Conn
	decoder *json.Decoder
	disk    string // the first disk's device path, for qemu-io
	job     string // the block job of the merge
}

func newQEMUMonitor(t *testing.T, vm fleet.VM) *qemuMonitor {
	t.Helper()
	status := string(must(os.ReadFile(statusFileOf(vm))))
	of := func(what string) string { return regexp.MustCompile(what).FindStringSubmatch(status)[1] }
	sock := must(net.Dial("unix", of(`<monitor path='([^']*)'`)))
	t.Cleanup(func() { sock.Close() })
	m := &qemuMonitor{t: t, sock: sock, decoder: json.NewDecoder(sock), disk: firstDiskDevice(status), job: of(`<blockjob name='([^']*)'`)}
	m.receive()
	m.sendCommand("qmp_capabilities", map[string]any{})
	return m
}

// firstDiskDevice returns the device path of the guest's first disk, from libvirt's status file.
func firstDiskDevice(status string) string {
	return regexp.MustCompile(`<qom name='(/machine/peripheral/ua-quantix-disk[^']*)'`).FindStringSubmatch(status)[1]
}

func (m *qemuMonitor) receive() json.RawMessage {
	m.t.Helper()
	for {
		var reply map[string]json.RawMessage
		if err := m.decoder.Decode(&reply); err != nil {
			m.t.Fatal(err)
		}
		if reply["error"] != nil {
			m.t.Fatalf("QEMU: %s", reply["error"])
		}
		if reply["event"] == nil {
			return reply["return"]
		}
	}
}

func (m *qemuMonitor) sendCommand(what string, args map[string]any) json.RawMessage {
	m.t.Helper()
	if err := json.NewEncoder(m.sock).Encode(map[string]any{"execute": what, "arguments": args}); err != nil {
		m.t.Fatal(err)
	}
	return m.receive()
}

// endMerge ends the merge with the QMP command and dismisses the job, as libvirt does before it records the outcome.
func (m *qemuMonitor) endMerge(how string) {
	m.t.Helper()
	m.sendCommand(how, map[string]any{"id": m.job})
	waitFor(m.t, "the merge has ended", func() bool {
		return strings.Contains(string(m.sendCommand("query-jobs", map[string]any{})), "concluded")
	})
	m.sendCommand("job-dismiss", map[string]any{"id": m.job})
}

// write writes to the guest's disk.
func (m *qemuMonitor) write(b byte) {
	m.t.Helper()
	for _, do := range []string{fmt.Sprintf("write -P %d 0 64k", b), "flush"} {
		line := fmt.Sprintf("qemu-io -d %s %q", m.disk, do)
		if reply := m.sendCommand("human-monitor-command", map[string]any{"command-line": line}); string(reply) != `""` {
			m.t.Fatalf("%s: %s", line, reply)
		}
	}
}

// requireInterrupted runs a job and requires that the agent's simulated death interrupts the job.
func requireInterrupted(t *testing.T, do func() error) {
	t.Helper()
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, errAgentKilled) {
			t.Fatal("the job was not interrupted:", err)
		}
	}()
	t.Error("the job has ended:", do())
}

// interruptedPivot is a VM whose agent and libvirtd ended just as QEMU got the pivot command.
type interruptedPivot struct {
	*snapper
	in   hypervisor.SnapshotWork // the interrupted job
	back func()                  // restarts libvirtd
	pid  int                     // the process ID of the guest's QEMU
}

func (c *interruptedPivot) again() error {
	c.in.Progress = func(int, string) {}
	return c.DeleteSnapshot(c.t.Context(), c.in)
}

func (c *interruptedPivot) consolidate() error {
	return c.DeleteSnapshot(c.t.Context(), c.snapshotWork(fleet.SnapshotParams{}))
}

func (c *interruptedPivot) refused(what string, err error, says string) {
	c.t.Helper()
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), says) {
		c.t.Fatalf("%s: %v, want %q", what, err, says)
	}
}

// newInterruptedPivot returns a VM with libvirtd stopped while QEMU waits for the pivot. The guest's disk starts with
// 'c', and the snapshot with 'a'.
func newInterruptedPivot(t *testing.T) *interruptedPivot {
	t.Helper()
	s := newSnapper(t)
	s.writeDisk('a')
	s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
	c := &interruptedPivot{snapper: s, in: s.snapshotWork(fleet.SnapshotParams{ID: s.takeSnapshot(false)}), pid: qemuPIDOf(t, s.vm)}
	disk := firstDiskDevice(string(must(os.ReadFile(statusFileOf(s.vm)))))
	// Until the firmware has found the disk, QEMU caches the file's tables. A killed QEMU would then lose the write.
	for _, do := range []string{"write -P 99 0 64k", "flush"} {
		virsh(t, "qemu-monitor-command", string(s.vm.ID), "--hmp", fmt.Sprintf("qemu-io -d %s %q", disk, do))
	}
	c.back = sync.OnceFunc(func() { startLibvirtd(t) })
	t.Cleanup(func() { killQEMUProcess(t, c.pid) })
	tree := filepath.Join("/var/lib/libvirt/quantix/snapshots", string(s.vm.ID), "tree.json")
	c.in.Progress = func(int, string) {
		if strings.Contains(string(must(os.ReadFile(tree))), hypervisor.SnapStepPivoting) {
			panic(errAgentKilled)
		}
	}
	requireInterrupted(t, func() error { return s.DeleteSnapshot(t.Context(), c.in) })
	stopLibvirtd(t)
	t.Cleanup(c.back)
	return c
}

// A libvirt killed during a pivot either names the old file afterwards or has lost the guest. The guest's later writes
// survive in each case: the agent asks QEMU for the current file, and refuses the job if the file is unknown.
func TestMergeSurvivesLibvirtKilledDuringPivot(t *testing.T) {
	for _, a := range []struct {
		name string
		qemu string // the QMP command that ends the merge while libvirtd is stopped
		next byte   // what the guest writes next; 0: nothing
		lost bool   // libvirt cannot read its status file
		ends bool   // QEMU ends as well
		then func(c *interruptedPivot)
	}{
		{"pivoted, libvirt names the old file", "job-complete", 'b', false, false, func(c *interruptedPivot) {
			c.refused("again", c.again(), "Shut the guest down")
			if p := c.status().Power; p != fleet.Running || qemuPIDOf(c.t, c.vm) != c.pid {
				c.t.Errorf("the guest is %s", p)
			}
			c.stopGuest()
			c.requireNoError(c.consolidate())
		}},
		{"not pivoted, libvirt believes the merge runs", "job-cancel", 'b', false, false, func(c *interruptedPivot) {
			c.refused("again", c.again(), "Shut the guest down")
			c.stopGuest()
			c.requireNoError(c.consolidate())
		}},
		{"pivoted, libvirt has lost the guest", "job-complete", 'b', true, false, func(c *interruptedPivot) {
			c.refused("again", c.again(), "libvirt has lost the VM")
			killQEMUProcess(c.t, c.pid)
			// virtlogd, which has the guest's log open, notices the end of QEMU a moment later.
			waitFor(c.t, "the guest starts", func() bool { return c.StartVM(c.t.Context(), c.vm.ID) == nil })
			c.requireNoError(c.again())
		}},
		{"pivoted, QEMU ended", "job-complete", 0, false, true, func(c *interruptedPivot) { c.requireNoError(c.again()) }},
		{"pivoted, guest wrote, QEMU ended", "job-complete", 'b', false, true, func(c *interruptedPivot) {
			c.refused("again", c.again(), "two files differ")
			c.refused("start", c.StartVM(c.t.Context(), c.vm.ID), "consolidate the VM's disks")
			path := filepath.Join(c.t.TempDir(), "xml")
			text, err := virshAt(systemURI, "dumpxml", "--inactive", string(c.vm.ID))
			c.requireNoError(err)
			text = strings.ReplaceAll(text, c.currentDiskFile(), filepath.Join(c.pool.Spec.Path, "disk.qcow2"))
			c.requireNoError(os.WriteFile(path, []byte(text), 0o600))
			virsh(c.t, "define", path)
			c.requireNoError(c.consolidate())
			c.requireNoError(c.StartVM(c.t.Context(), c.vm.ID))
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			c := newInterruptedPivot(t)
			m := newQEMUMonitor(t, c.vm)
			m.endMerge(a.qemu)
			want := byte('c')
			if a.next != 0 {
				want = a.next
				m.write(want)
			}
			m.sock.Close()
			if a.lost {
				text := regexp.MustCompile(`<mirror type='file' job='[^>]*>`).ReplaceAll(must(os.ReadFile(statusFileOf(c.vm))), []byte("<mirror type='file' job=''>"))
				c.requireNoError(os.WriteFile(statusFileOf(c.vm), text, 0o600))
			}
			if a.ends {
				killQEMUProcess(t, c.pid)
			}
			c.back()
			waitFor(t, "the backend has reconnected to libvirt", func() bool { _, _, err := c.VM(t.Context(), c.vm.ID); return err == nil })
			a.then(c)
			c.stopAndCheckDisk(a.name, want)
		})
	}
}
