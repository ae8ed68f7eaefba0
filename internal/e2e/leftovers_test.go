//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// leftovers waits a moment for the dead to be reaped and names what still lives below dir: processes, mounts and bridges.
func leftovers(dir string) error {
	var left []string
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(100 * time.Millisecond) {
		left = append(processes(dir), mounts(dir)...)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New(strings.Join(left, "\n"))
		}
	}
}

// processes are those that were started from dir, name it in their arguments, or see it among their mounts.
func processes(dir string) (left []string) {
	entries, _ := os.ReadDir("/proc")
	own, _ := os.ReadFile("/proc/self/mountinfo")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if len(args) == 0 {
			continue // a kernel thread, or dead and not yet reaped
		}
		seen, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "mountinfo"))
		if bytes.Contains(args, []byte(dir)) || !bytes.Equal(seen, own) && bytes.Contains(seen, []byte(dir)) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte(" "))))
		}
	}
	return left
}

func mounts(dir string) (left []string) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir) {
			left = append(left, "mount: "+strings.TrimSpace(line))
		}
	}
	return left
}

// processesOf are the processes whose arguments hold all of the words, as words of their own.
func processesOf(words ...string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		all := true
		for _, w := range words {
			all = all && bytes.Contains(text, []byte(w+"\x00"))
		}
		if all && len(text) > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// bridge is a network device of a lab host. The index tells it from another of the same name that comes later.
type bridge struct{ name, index string }

// bridges are those of the lab hosts whose directories are given.
func bridges(hosts ...string) (found []bridge) {
	for _, dir := range hosts {
		text, _ := os.ReadFile(filepath.Join(dir, "etc/qemu/networks/default.xml"))
		_, rest, ok := strings.Cut(string(text), "<bridge name='")
		if !ok {
			_, rest, ok = strings.Cut(string(text), `<bridge name="`)
		}
		if !ok {
			continue
		}
		name := rest[:strings.IndexAny(rest, `'"`)]
		found = append(found, bridge{name, ifindex(name)})
	}
	return found
}

func (b bridge) left() bool { return b.index != "" && ifindex(b.name) == b.index }

func ifindex(name string) string {
	text, _ := os.ReadFile(filepath.Join("/sys/class/net", name, "ifindex"))
	return strings.TrimSpace(string(text))
}
