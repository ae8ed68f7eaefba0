package guest

import (
	"net"
	"os"
	"strings"
	"syscall"
)

// neighbours returns the IPv4 neighbours in the kernel's ARP table.
func neighbours() []neighbour {
	text, err := os.ReadFile("/proc/net/arp")
	if err != nil {
		return nil
	}
	return parseARPTable(string(text))
}

// parseARPTable parses /proc/net/arp: address, type, flags, hardware address, mask, device.
func parseARPTable(text string) (out []neighbour) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 6 && f[0] != "IP" && f[2] != "0x0" {
			out = append(out, neighbour{ip: f[0], mac: strings.ToLower(f[3]), device: f[5]})
		}
	}
	return out
}

// dialerOnDevice returns a dialer bound to the host's network device. With an empty device, the host's routes choose the
// device.
func dialerOnDevice(device string) *net.Dialer {
	if device == "" {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		if err := raw.Control(func(fd uintptr) { bound = syscall.BindToDevice(int(fd), device) }); err != nil { //nolint:gosec // A file descriptor fits an int.
			return err
		}
		return bound
	}}
}
