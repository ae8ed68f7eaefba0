package libvirt

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
)

// usualMTU is what a guest assumes that is told nothing.
const usualMTU = 1500

// tellMTU has the definition tell the guest how large the packets of its cards may be, on networks that Quantix made. libvirt knows an MTU only of
// networks that it serves itself, so it stands at the card. A smaller one may be somebody's choice, and stays. It reports whether it changed anything.
func tellMTU(ctx context.Context, c *conn, x *libvirtxml.Domain) (changed bool, err error) {
	if x.Devices == nil {
		return false, nil
	}
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		if !isOurs(n.Alias, aliasNIC) || n.Source == nil || n.Source.Network == nil {
			continue
		}
		mtu, err := networkMTU(ctx, c, n.Source.Network.Network)
		switch {
		case err != nil:
			return changed, err
		case mtu == 0, n.MTU == nil && mtu == usualMTU, n.MTU != nil && n.MTU.Size <= mtu:
			continue
		}
		n.MTU, changed = &libvirtxml.DomainInterfaceMTU{Size: mtu}, true
	}
	return changed, nil
}

// networkMTU is that of the bridge of a network that Quantix made; 0: it is not known, or another's affair.
func networkMTU(ctx context.Context, c *conn, name string) (uint, error) {
	text, err := call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
		ref, err := l.NetworkLookupByName(name)
		if err != nil {
			return "", err
		}
		return l.NetworkGetXMLDesc(ref, 0)
	})
	if is(err, golibvirt.ErrNoNetwork) {
		return 0, nil // what that means says the start
	}
	if err != nil {
		return 0, err
	}
	var x libvirtxml.Network
	if err := x.Unmarshal(text); err != nil {
		return 0, fmt.Errorf("read the network %s: %w", name, err)
	}
	if networkStamp(x).Digest == "" || x.Bridge == nil || x.Bridge.Name == "" {
		return 0, nil
	}
	said, err := os.ReadFile(filepath.Join("/sys/class/net", filepath.Base(x.Bridge.Name), "mtu"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // its network says that it is not there
	}
	mtu, _ := strconv.ParseUint(strings.TrimSpace(string(said)), 10, 32) // 0 where it is no number
	return uint(mtu), err
}
