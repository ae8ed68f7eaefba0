//go:build linux

package lab

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

func (o Options) check() error {
	switch {
	case !filepath.IsAbs(o.Dir) || filepath.Clean(o.Dir) != o.Dir:
		return fmt.Errorf("the directory %q is not a clean absolute path", o.Dir)
	case len(o.Dir) > 80:
		return fmt.Errorf("the directory %q is longer than 80 bytes, too long for Unix sockets below it: choose a shorter one", o.Dir)
	case strings.ContainsAny(o.Dir, " ?#&\n\""):
		return fmt.Errorf("the directory %q contains a character that libvirt URIs do not allow: choose another directory", o.Dir)
	case !validName.MatchString(o.Name):
		return fmt.Errorf("%q is no host name: use lower-case letters, digits, dots and hyphens", o.Name)
	}
	return nil
}

// prepareDir creates the files and directories in o.Dir that the supervisor mounts, and returns the host's UUID. It
// removes the runtime state of an earlier run, such as pid files and sockets. Definitions and the UUID stay.
func prepareDir(o Options, s *slot) (uuid string, err error) {
	at := func(name string) string { return filepath.Join(o.Dir, name) }
	if err := secureDir(o.Dir); err != nil {
		return "", err
	}
	if err := os.RemoveAll(at("run")); err != nil {
		return "", err
	}
	dirs := []string{
		at("run"), at("lib/images"), at("lib/qemu"), at("log"), at("cache/qemu"), at("no-dbus"), at("etc/qemu/networks/autostart"),
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	for _, dir := range o.SharedDirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	// Copy only the machine's network filters into the host. The rest of /etc/libvirt, such as the machine's guests, is
	// not copied.
	if filters := os.DirFS("/etc/libvirt/nwfilter"); !fileExists(at("etc/nwfilter")) {
		if err := os.CopyFS(at("etc/nwfilter"), filters); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	id, err := machineID(at("machine-id"))
	if err != nil {
		return "", err
	}
	uuid = formatUUID(id)
	hosts, err := hostsFile(o.Name, o.Peers)
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"no-kvm":                        "",
		"hosts":                         hosts,
		"etc/libvirtd.conf":             libvirtdConf(uuid),
		"etc/qemu.conf":                 qemuConf + s.migrationPorts(),
		"etc/qemu/networks/default.xml": s.networkXML(),
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	err = os.Symlink("/etc/libvirt/qemu/networks/default.xml", at("etc/qemu/networks/autostart/default.xml"))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	loadCapabilities(o.Dir)
	return uuid, nil
}

// secureDir creates the directory, or accepts an existing one that the caller owns. It denies access to other users,
// because access to the libvirt sockets below it amounts to root.
func secureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory %s belongs to another user: choose another, or remove it", dir)
	}
	return os.Chmod(dir, 0o700)
}

// qemuConf makes libvirt run guests as root: a lab host serves one user, and guests that run as root can use every
// directory and socket without preparation.
const qemuConf = `namespaces = []
security_driver = "none"
user = "root"
group = "root"
swtpm_user = "root"
swtpm_group = "root"
dynamic_ownership = 0
remember_owner = 0
`

func libvirtdConf(uuid string) string {
	return fmt.Sprintf(`host_uuid = %q
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
unix_sock_admin_perms = "0700"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
`, uuid)
}

// hostsFile returns the machine's /etc/hosts, preceded by the lab's host names. No host name is an alias of localhost,
// because libvirt refuses to migrate to localhost.
func hostsFile(name string, peers []string) (string, error) {
	machine, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	var b strings.Builder
	for _, n := range append([]string{name}, peers...) {
		fmt.Fprintf(&b, "127.0.1.1 %s\n", n)
	}
	b.Write(machine)
	return b.String(), nil
}

// machineID reads the 32 hexadecimal digits in the file, or generates digits and writes them.
func machineID(path string) (string, error) {
	text, err := os.ReadFile(path)
	if id := string(bytes.TrimSpace(text)); err == nil && len(id) == 32 {
		return id, nil
	}
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	id := hex.EncodeToString(b[:])
	return id, os.WriteFile(path, []byte(id+"\n"), 0o644)
}

func formatUUID(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
