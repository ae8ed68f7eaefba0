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

// checkLeftovers returns an error that names the processes, mounts and bridges that still use dir. It first waits a
// moment, so that dead processes can be reaped.
func checkLeftovers(dir string) error {
	var left []string
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(100 * time.Millisecond) {
		left = append(processesUsing(dir), mountsBelow(dir)...)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New(strings.Join(left, "\n"))
		}
	}
}

// processesUsing lists the processes that were started from dir, name dir in their arguments, or have it among their
// mounts.
func processesUsing(dir string) (left []string) {
	entries, _ := os.ReadDir("/proc")
	own, _ := os.ReadFile("/proc/self/mountinfo")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if len(args) == 0 {
			continue // a kernel thread, or a dead process that is not reaped yet
		}
		seen, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "mountinfo"))
		if bytes.Contains(args, []byte(dir)) || !bytes.Equal(seen, own) && bytes.Contains(seen, []byte(dir)) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte(" "))))
		}
	}
	return left
}

func mountsBelow(dir string) (left []string) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir) {
			left = append(left, "mount: "+strings.TrimSpace(line))
		}
	}
	return left
}

// processesOf returns the processes whose arguments include all the given words.
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

// labBridge is a bridge of a lab host. Its interface index distinguishes it from a later bridge with the same name.
type labBridge struct{ name, index string }

// bridgesOfHosts returns the bridges of the lab hosts with the given directories.
func bridgesOfHosts(hosts ...string) (found []labBridge) {
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
		found = append(found, labBridge{name, interfaceIndex(name)})
	}
	return found
}

func (b labBridge) stillExists() bool { return b.index != "" && interfaceIndex(b.name) == b.index }

func interfaceIndex(name string) string {
	text, _ := os.ReadFile(filepath.Join("/sys/class/net", name, "ifindex"))
	return strings.TrimSpace(string(text))
}
