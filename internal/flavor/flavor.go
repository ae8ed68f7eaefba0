// Package flavor defines flavors, which are named sizes of VMs, and the rules of a project for its VMs.
package flavor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// ID identifies a flavor.
type ID string

// Definition is what users define of a flavor.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	CPUs        int    `json:"cpus" doc:"vCPUs"`
	MemoryMiB   int    `json:"memoryMiB"`
	DiskBytes   int64  `json:"diskBytes,omitempty" doc:"Size of a new VM's first disk; 0: the flavor sets none"`
}

// Flavor is a named size of a VM. A VM keeps the size, not the flavor.
type Flavor struct {
	ID ID `json:"id"`
	Definition
	Generation int64              `json:"generation"`
	CreatedAt  time.Time          `json:"createdAt"`
	Grants     []fleet.ImageGrant `json:"grants"` // projects that may use the flavor, as far as the user may see them
}

// PublishedToText returns the projects that the flavor is published to, as text.
func (f Flavor) PublishedToText() string { return fleet.ImageView{Grants: f.Grants}.PublishedToText() }

// Check adds an error for each invalid field.
func (s Definition) Check(c *fleet.Checks) {
	fleet.CheckName(c, "name", s.Name)
	fleet.CheckDescription(c, "description", s.Description)
	var all fleet.Checks
	fleet.VMSpec{CPUs: s.CPUs, MemoryMiB: s.MemoryMiB, Firmware: fleet.BIOS, Power: fleet.Stopped}.Check(&all, "spec")
	if refused, ok := errors.AsType[*fleet.Error](all.Err()); ok {
		for _, f := range refused.Fields {
			if name, _ := strings.CutPrefix(f.Field, "spec."); name == "cpus" || name == "memoryMiB" {
				c.Add(name, "%s", f.Message)
			}
		}
	}
	if s.DiskBytes < 0 || s.DiskBytes > fleet.MaxDiskBytes {
		c.Add("diskBytes", "A disk has at most %s. Leave the size empty if the flavor sets none.", fleet.FormatBytes(fleet.MaxDiskBytes))
	}
}

// SizeText describes the size: "2 vCPUs, 4 GiB, disk 40 GiB".
func (s Definition) SizeText() string {
	text := fmt.Sprintf("%d vCPUs, %s", s.CPUs, fleet.FormatBytes(int64(s.MemoryMiB)<<20))
	if s.CPUs == 1 {
		text = strings.Replace(text, "vCPUs", "vCPU", 1)
	}
	if s.DiskBytes > 0 {
		text += ", disk " + fleet.FormatBytes(s.DiskBytes)
	}
	return text
}

// ApplyTo returns the spec of a new VM with the flavor's size. The size of a first disk that is a copy does not change.
func (s Definition) ApplyTo(spec fleet.VMSpec, copied bool) fleet.VMSpec {
	spec.CPUs, spec.MemoryMiB = s.CPUs, s.MemoryMiB
	if d := firstSizedDisk(spec, copied); d != nil && s.DiskBytes > 0 {
		spec.Disks = append([]fleet.Disk(nil), spec.Disks...)
		spec.Disks[0].SizeBytes = s.DiskBytes
	}
	return spec
}

// firstSizedDisk returns the first disk of a new VM if its size can be chosen; nil: it cannot.
func firstSizedDisk(spec fleet.VMSpec, copied bool) *fleet.Disk {
	if copied || len(spec.Disks) == 0 || spec.Disks[0].Existing {
		return nil
	}
	return &spec.Disks[0]
}

// isSizeOf reports whether a VM has the flavor's vCPUs and memory, and a new VM also its disk size.
func (s Definition) isSizeOf(vm VM) bool {
	if s.CPUs != vm.Spec.CPUs || s.MemoryMiB != vm.Spec.MemoryMiB {
		return false
	}
	d := firstSizedDisk(vm.Spec, vm.CopiedDisks)
	return !vm.New || s.DiskBytes == 0 || d == nil || d.SizeBytes == s.DiskBytes
}

// FlavorOfSize returns the flavor among all that has a new VM's size; nil: none.
func FlavorOfSize(all []Flavor, vm VM) *Flavor {
	for i := range all {
		if all[i].isSizeOf(vm) {
			return &all[i]
		}
	}
	return nil
}

// CountPublished returns how many of the flavors are published to the project.
func CountPublished(all []Flavor, project fleet.ProjectID) (n int) {
	for _, f := range all {
		if slices.ContainsFunc(f.Grants, func(g fleet.ImageGrant) bool { return g.ProjectID == "" || g.ProjectID == project }) {
			n++
		}
	}
	return n
}
