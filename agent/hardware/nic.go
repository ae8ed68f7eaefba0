package hardware

import (
	"net"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// nics lists the network devices except those of guests and containers.
func (t hostTree) nics() (out []fleet.HostNIC) {
	const dir = "sys/class/net"
	for _, name := range t.listDir(dir) {
		kind := t.nicKind(name)
		if kind == "" {
			continue
		}
		nic := fleet.HostNIC{
			Name: name, Kind: kind, MAC: t.readLine(dir, name, "address"), Driver: t.linkTargetName(dir, name, "device/driver"),
			Up: t.readLine(dir, name, "operstate") == "up", MTU: int(t.readNumber(dir, name, "mtu")), Addresses: t.addresses(name),
			Master: t.linkTargetName(dir, name, "master"), Over: t.lowerDevice(name, kind), SpeedMbps: max(0, int(t.readNumber(dir, name, "speed"))),
			VFs: int(t.readNumber(dir, name, "device/sriov_numvfs")), VFsTotal: int(t.readNumber(dir, name, "device/sriov_totalvfs")),
		}
		if kind != "physical" {
			nic.SpeedMbps = 0 // bridges report meaningless speeds
		}
		out = append(out, nic)
	}
	if !t.exists(dir) {
		return platformNICs()
	}
	return out
}

// NICs lists this machine's current network devices. The agent calls it for every report, so it reads only the
// necessary files.
func NICs() []fleet.HostNIC { return hostTree("/").nics() }

// lowerDevice returns the device that a VLAN device uses; empty for other devices.
func (t hostTree) lowerDevice(name, kind string) string {
	if kind != "vlan" {
		return ""
	}
	for _, entry := range t.listDir("sys/class/net", name) {
		if below, ok := strings.CutPrefix(entry, "lower_"); ok {
			return below
		}
	}
	return ""
}

// nicKind returns the kind of a NIC; empty for loopback, virtual Ethernet pairs, taps and SR-IOV functions.
func (t hostTree) nicKind(name string) string {
	const dir = "sys/class/net"
	has := func(f string) bool { return t.exists(dir, name, f) }
	switch {
	case !has("address"), t.readLine(dir, name, "type") != "1", has("device/physfn"):
		return ""
	case has("device"):
		return "physical"
	case has("bridge"):
		return "bridge"
	case has("bonding"):
		return "bond"
	case strings.Contains(t.readLine(dir, name, "uevent"), "DEVTYPE=vlan"):
		return "vlan"
	case has("tun_flags"), t.readNumber(dir, name, "iflink") != t.readNumber(dir, name, "ifindex"):
		return "" // a tap, or one end of a pair
	case strings.HasPrefix(name, "veth"), strings.HasPrefix(name, "vnet"), strings.HasPrefix(name, "tap"):
		return ""
	}
	return "virtual"
}

// addresses returns the device's addresses on this machine. A recorded tree has none.
func (t hostTree) addresses(name string) []string {
	if t != "/" {
		return nil
	}
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	return addressesOf(*dev)
}

func addressesOf(dev net.Interface) (out []string) {
	addrs, err := dev.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
			out = append(out, ip.String())
		}
	}
	slices.Sort(out)
	return out
}

// platformNICs lists the network devices that Go's net package reports, without sysfs.
func platformNICs() (out []fleet.HostNIC) {
	devs, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, d := range devs {
		if d.Flags&net.FlagLoopback == 0 && len(d.HardwareAddr) == 6 {
			out = append(out, fleet.HostNIC{
				Name: d.Name, Kind: "physical", MAC: d.HardwareAddr.String(), Up: d.Flags&net.FlagRunning != 0, MTU: d.MTU, Addresses: addressesOf(d),
			})
		}
	}
	return out
}
