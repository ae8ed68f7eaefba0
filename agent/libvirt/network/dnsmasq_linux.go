package network

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// isDnsmasqRunning reports whether the network's dnsmasq runs. libvirt does not check dnsmasq, but stores its process
// ID in a file beside libvirt's socket. isDnsmasqRunning returns true if libvirtd's processes are not visible to this
// process.
func isDnsmasqRunning(socket, network string) bool {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(socket), "network", network+".pid"))
	if err != nil && !os.IsNotExist(err) {
		return true
	}
	if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && isDnsmasqOf(pid, network) {
		return true
	}
	if !isListenerVisible(socket) {
		return true
	}
	// libvirtd may run in another PID namespace, so the stored process ID may be wrong in this namespace.
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return true
	}
	for _, dir := range all {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && isDnsmasqOf(pid, network) {
			return true
		}
	}
	return false
}

// isDnsmasqOf reports whether the process is a dnsmasq with the network's configuration.
func isDnsmasqOf(pid int, network string) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	args := bytes.Split(line, []byte{0})
	if filepath.Base(string(args[0])) != "dnsmasq" {
		return false
	}
	for _, a := range args[1:] {
		if strings.HasSuffix(string(a), "/"+network+".conf") {
			return true
		}
	}
	return false
}

// isListenerVisible reports whether the process that listens on the socket is visible to this process.
func isListenerVisible(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	visible := false
	err = raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		visible = err == nil && peer.Pid > 0
	})
	return err == nil && visible
}
