//go:build linux

package lab

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// removeRemains removes the named bridges, the firewall rules of these bridges and of the slot's subnet, and the slot's
// cgroups.
func (s *slot) removeRemains(bridges []string, log *slog.Logger) error {
	var errs []error
	for _, b := range bridges {
		if fileExists("/sys/class/net/" + b) {
			errs = append(errs, runCommand("ip", "link", "delete", b))
		}
	}
	var mine []firewallRule
	for _, r := range readFirewall(log) {
		matches := func(word string) bool { return slices.Contains(bridges, word) || strings.HasPrefix(word, s.subnet()) }
		if _, isRule := r.chain(); isRule && slices.ContainsFunc(strings.Fields(r.line), matches) {
			mine = append(mine, r)
		}
	}
	return errors.Join(append(errs, removeRules(mine), removeCgroups(s.cgroup()))...)
}

// remainingBridges returns the bridges of networks that were active when the libvirtd of the host in dir ended.
func remainingBridges(dir string) (bridges []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "run/network/*.xml")) // Glob finds no files if the directory is missing
	for _, file := range files {
		var status struct {
			Network struct {
				Bridge struct {
					Name string `xml:"name,attr"`
				} `xml:"bridge"`
				Forward struct {
					Mode string `xml:"mode,attr"`
				} `xml:"forward"`
			} `xml:"network"`
		}
		text, err := os.ReadFile(file)
		if err != nil || xml.Unmarshal(text, &status) != nil {
			continue
		}
		// A network in bridge mode only uses a bridge of the machine and does not own the bridge.
		if n := status.Network; n.Bridge.Name != "" && n.Forward.Mode != "bridge" {
			bridges = append(bridges, n.Bridge.Name)
		}
	}
	return bridges
}

// removeCgroups removes the named cgroup from every hierarchy. The processes in it have ended, but the kernel may need
// a moment until the cgroup is empty.
func removeCgroups(name string) error {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || (f[2] != "cgroup" && f[2] != "cgroup2") {
			continue
		}
		branch := filepath.Join(f[1], name)
		deadline := time.Now().Add(3 * time.Second)
		for removeCgroupTree(branch) != nil {
			if time.Now().After(deadline) {
				return fmt.Errorf("the cgroup %s is still in use", branch)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// removeCgroupTree removes a cgroup and its descendants, deepest first. It is no error if the cgroup is missing.
func removeCgroupTree(branch string) error {
	var dirs []string
	err := filepath.WalkDir(branch, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		if rerr := os.Remove(dir); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}
	return err
}

// runCommand runs a command on the machine. Its error contains the command's output.
func runCommand(name string, args ...string) error {
	cmd := exec.Command(programPath(name), args...)
	cmd.Env = commandEnvironment(nil)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
