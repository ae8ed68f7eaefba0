//go:build linux && ordeal

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk as smartctl --json -a describes it.
const (
	passingDisk = `{"model_name": "WDC WD4003FRYZ", "serial_number": "V1H2K3AA", "rotation_rate": 7200, "smart_status": {"passed": true}, "temperature": {"current": 35}}`
	failingDisk = `{"model_name": "WDC WD4003FRYZ", "serial_number": "V1H2K3AA", "rotation_rate": 7200, "smart_status": {"passed": false}, "temperature": {"current": 36}}`
)

// healthSources are the kernel log and the smartctl of a simulated host.
type healthSources struct {
	t         *testing.T
	dir       string
	kernelLog string
}

func newHealthSources(t *testing.T) healthSources {
	t.Helper()
	s := healthSources{t: t, dir: t.TempDir()}
	s.kernelLog = filepath.Join(s.dir, "kernel-log")
	s.write(s.kernelLog, "")
	s.setDisk(passingDisk)
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*--scan-open*) echo '{\"devices\": [{\"name\": \"/dev/sda\", \"type\": \"sat\"}]}' ;;\n*) cat %s/disk.json ;;\nesac\n", s.dir)
	s.write(filepath.Join(s.dir, "smartctl"), script)
	if err := os.Chmod(filepath.Join(s.dir, "smartctl"), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s healthSources) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// setDisk replaces what smartctl says about the disk.
func (s healthSources) setDisk(text string) {
	s.t.Helper()
	s.write(filepath.Join(s.dir, "next.json"), text)
	if err := os.Rename(filepath.Join(s.dir, "next.json"), filepath.Join(s.dir, "disk.json")); err != nil {
		s.t.Fatal(err)
	}
}

// logLine appends a line to the kernel log.
func (s healthSources) logLine(text string) {
	s.t.Helper()
	f, err := os.OpenFile(s.kernelLog, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text + "\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s healthSources) env() []string { return []string{"PATH=" + s.dir + ":" + os.Getenv("PATH")} }

// TestHealthEventsOfHostAppearOnItsPage follows an XID error and a failing disk from the host to its page, which is never
// loaded again and has no polls.
func TestHealthEventsOfHostAppearOnItsPage(t *testing.T) {
	t.Parallel()
	s := newPortal(t, uniqueName("health"))
	from := newHealthSources(t)
	agent, _ := s.startMockAgentWith("gpu-host", from.env(), "--kernel-log", from.kernelLog)
	host := s.api().hostByName(t, "gpu-host")
	p := newTab(t, s.url)
	p.withoutPolls()
	p.open("/sign-in")
	p.enterCredentials("admin", s.password)
	p.waitPath("/")
	p.open("/hosts/" + string(host.ID) + "?tab=health")
	p.waitText("#checks", "Disks (SMART)")
	p.markDocument()

	from.logLine("NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
	p.waitText("#conditions", "The GPU has fallen off the bus (XID 79)")
	p.waitText("#conditions", "gpu/0000:41:00.0")
	p.waitText("#events", "Occurred")

	from.setDisk(failingDisk)
	if err := syscall.Kill(agent.cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.waitText("#conditions", "The disk sda reports that it is failing")
	p.waitText("#events", "Raised")
	if button := p.visibleText("#conditions"); !strings.Contains(button, "Resolve") {
		t.Errorf("no condition can be resolved: %s", button)
	}
	p.capture("host-health-live")

	from.setDisk(passingDisk)
	if err := syscall.Kill(agent.cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.waitNoText("#conditions", "failing")
	p.waitText("#events", "Cleared")

	p.click("#conditions button:not([aria-disabled=true]):not([disabled])", "Resolve")
	p.waitNoText("#conditions", "XID 79")
	p.waitText("#events", "Resolved")
	p.waitTrue("the page not to be loaded again", `window.quantixMark === true`)
	p.checkPollsOff()

	from.setDisk("Segmentation fault")
	if err := syscall.Kill(agent.cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.waitText("#checks", "1 of 1 disk cannot be read. sda: its output is not complete JSON")
}
