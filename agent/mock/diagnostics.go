package mock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
)

// Diagnostics implements hypervisor.Hypervisor.
func (h *Host) Diagnostics() []hypervisor.Diagnostic {
	read := func(list func(*strings.Builder)) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			var out strings.Builder
			list(&out)
			return out.String(), nil
		}
	}
	return []hypervisor.Diagnostic{
		{Name: "hypervisor", Title: "libvirt and QEMU", Read: read(func(out *strings.Builder) { fmt.Fprintln(out, "A simulated host: it has no libvirt.") })},
		{Name: "domains", Title: "VMs in libvirt", Read: read(func(out *strings.Builder) {
			for _, g := range slices.SortedFunc(maps.Values(h.guests), func(a, b *guest) int { return strings.Compare(a.name, b.name) }) {
				fmt.Fprintf(out, "%s  %-40s  %s\n", g.id, g.name, g.power)
			}
		})},
		{Name: "pools", Title: "Storage pools in libvirt", Read: read(func(out *strings.Builder) {
			for _, name := range slices.Sorted(maps.Keys(h.pools)) {
				fmt.Fprintf(out, "%-40s  %s\n", name, h.pools[name].spec.Kind)
			}
		})},
		{Name: "networks", Title: "Networks in libvirt", Read: read(func(out *strings.Builder) {
			for _, name := range slices.Sorted(maps.Keys(h.networks)) {
				fmt.Fprintf(out, "%-40s  active %t\n", name, h.networks[name].active)
			}
		})},
	}
}
