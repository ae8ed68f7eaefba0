package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
)

// defaultMTU is the MTU, in bytes, that a guest assumes if its NIC has none.
const defaultMTU = 1500

// SetNICMTUs sets the MTU of NICs on networks created by Quantix. libvirt passes on only the MTU of networks that
// libvirt itself serves, so SetNICMTUs sets the MTU in the NIC's definition. A smaller configured MTU stays. changed
// reports whether the definition changed.
func SetNICMTUs(ctx context.Context, c *conn.Conn, x *libvirtxml.Domain) (changed bool, err error) {
	if x.Devices == nil {
		return false, nil
	}
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		if !domxml.HasAliasPrefix(n.Alias, domxml.NICAliasPrefix) || n.Source == nil || n.Source.Network == nil {
			continue
		}
		mtu, err := networkMTU(ctx, c, n.Source.Network.Network)
		switch {
		case err != nil:
			return changed, err
		case mtu == 0, n.MTU == nil && mtu == defaultMTU, n.MTU != nil && n.MTU.Size <= mtu:
			continue
		}
		n.MTU, changed = &libvirtxml.DomainInterfaceMTU{Size: mtu}, true
	}
	return changed, nil
}

// ReadByName reads the definition of a network that this host runs.
func ReadByName(ctx context.Context, c *conn.Conn, name string) (*libvirtxml.Network, error) {
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
		ref, err := l.NetworkLookupByName(name)
		if err != nil {
			return "", err
		}
		return l.NetworkGetXMLDesc(ref, 0)
	})
	if err != nil {
		return nil, err
	}
	x := &libvirtxml.Network{}
	if err := x.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("read the network %s: %w", name, err)
	}
	return x, nil
}

// networkMTU returns the MTU of the bridge of a network created by Quantix. It returns 0 if the MTU is unknown or
// Quantix did not create the network.
func networkMTU(ctx context.Context, c *conn.Conn, name string) (uint, error) {
	x, err := ReadByName(ctx, c, name)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNetwork) {
		return 0, nil // the start of the guest reports a missing network
	}
	if err != nil {
		return 0, err
	}
	if readNetworkMetadata(*x).Digest == "" || x.Bridge == nil || x.Bridge.Name == "" {
		return 0, nil
	}
	size, err := os.ReadFile(filepath.Join("/sys/class/net", filepath.Base(x.Bridge.Name), "mtu"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the network's own status reports the missing bridge
	}
	mtu, _ := strconv.ParseUint(strings.TrimSpace(string(size)), 10, 32) // 0 if it is not a number
	return uint(mtu), err
}
