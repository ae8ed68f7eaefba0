//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools are the programs that a lab host needs.
var tools = []string{
	"bash", "env", "setpriv", "nsenter", "unshare", "mount", "timeout", "ip", "iptables", "dnsmasq",
	"libvirtd", "virtlogd", "virsh", "qemu-system-x86_64", "qemu-img",
}

// Supported returns nil if this machine can run lab hosts, else an error with the reason and the remedy.
func Supported() error {
	if os.Geteuid() != 0 {
		return errors.New("lab hosts need root, for namespaces and networks: run this as root")
	}
	var missing []string
	for _, tool := range tools {
		if !filepath.IsAbs(programPath(tool)) {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("lab hosts need %s, not installed on this machine: run `quantix doctor --install lab`", strings.Join(missing, ", "))
	}
	if err := runCommand("unshare", "--mount", "--uts", "--pid", "--fork", "true"); err != nil {
		return fmt.Errorf("root cannot create namespaces on this machine (a container without CAP_SYS_ADMIN?): %w", err)
	}
	return nil
}

// programPath returns the path of an installed program, or name itself if the program is not found.
func programPath(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range filepath.SplitList(sbin) {
		if path := filepath.Join(dir, name); fileExists(path) {
			return path
		}
	}
	return name
}
