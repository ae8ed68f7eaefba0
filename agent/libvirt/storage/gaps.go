package storage

import (
	"cmp"
	"encoding/xml"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
	"quantix/internal/remedy"
)

// MissingPoolTypes returns the pool types without a libvirt driver. It returns none if libvirt is too old to report its
// drivers.
func MissingPoolTypes(l *golibvirt.Libvirt) (types []string, err error) {
	text, err := l.ConnectGetStoragePoolCapabilities(0)
	if err != nil {
		if conn.IsLibvirtError(err) {
			return nil, nil
		}
		return nil, err
	}
	var caps struct {
		Pools []struct {
			Type      string `xml:"type,attr"`
			Supported string `xml:"supported,attr"`
		} `xml:"pool"`
	}
	if err := xml.Unmarshal([]byte(text), &caps); err != nil {
		return nil, fmt.Errorf("read the pool types of libvirt: %w", err)
	}
	for _, p := range caps.Pools {
		if p.Supported == "no" {
			types = append(types, p.Type)
		}
	}
	return types, nil
}

// PoolGaps returns the pool kinds that the host does not support, because libvirt lacks the driver or the host lacks
// the mount program.
func PoolGaps(missing []string, lookPath func(program string) (string, error)) (gaps []fleet.PoolGap) {
	lacks := map[string]bool{}
	for _, t := range missing {
		lacks[t] = true
	}
	for _, t := range fleet.PoolTypes() {
		need, libvirt := remedy.PackagesForPool(t.Kind), poolSourcesByKind[t.Kind].libvirt
		if lacks[libvirt] {
			gaps = append(gaps, fleet.PoolGap{Kind: t.Kind, Why: fmt.Sprintf("This libvirt has no %s driver. Install %s.", libvirt, cmp.Or(need.Driver, "its storage drivers"))})
			continue
		}
		if need.Program == "" {
			continue
		}
		if _, err := lookPath(need.Program); err != nil {
			gaps = append(gaps, fleet.PoolGap{Kind: t.Kind, Why: need.Program + " is missing. Install " + need.Packages + "."})
		}
	}
	return gaps
}
