// Package template defines VM templates: versions of a VM's spec with an image for each disk, and the actions that they
// allow.
package template

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Bounds of templates.
const (
	MaxPerProject = 100
	MaxVersions   = 50
)

// Template is a VM's spec without its identity, with an image for each disk. It has versions and belongs to a project.
type Template struct {
	ID          fleet.TemplateID `json:"id"`
	Name        string           `json:"name"`
	ProjectID   fleet.ProjectID  `json:"projectId,omitempty"` // owning project; empty: the user may not see the project
	ProjectName string           `json:"projectName,omitempty"`
	Description string           `json:"description,omitempty"`
	OS          fleet.OSFacts    `json:"os"`
	CreatedBy   string           `json:"createdBy,omitempty"`
	CreatedAt   time.Time        `json:"createdAt"`
}

// Version is one version of a template. Its spec never changes: each disk names an image version and a proposed
// pool.
type Version struct {
	ID           fleet.TemplateVersionID `json:"id"`
	TemplateID   fleet.TemplateID        `json:"templateId"`
	Number       int                     `json:"number"` // from 1; the highest is the newest
	Spec         fleet.VMSpec            `json:"spec"`
	Source       string                  `json:"source,omitempty"`       // VM that it was created from, as text
	Note         string                  `json:"note,omitempty"`         // note of a user
	DeprecatedAt *time.Time              `json:"deprecatedAt,omitempty"` // set: no VM can be created from the version any more
	DeprecatedBy string                  `json:"deprecatedBy,omitempty"`
	CreatedBy    string                  `json:"createdBy,omitempty"`
	CreatedAt    time.Time               `json:"createdAt"`
	Disks        []Disk                  `json:"disks"` // images of the spec's disks, in the same order
	// VMs with a disk created from the version: only VMs that the user may see, and not all if there are many
	VMs          []VM                `json:"vms"`
	Others       int                 `json:"others"`       // number of such VMs in projects that the user may not see
	OthersLinked int                 `json:"othersLinked"` // number of Others that are linked clones
	Actions      []fleet.ActionState `json:"actions,omitempty"`
}

// Disk is the image of one disk of a template version.
type Disk struct {
	ImageID   fleet.ImageID        `json:"imageId"`
	VersionID fleet.ImageVersionID `json:"versionId"`
	SizeBytes int64                `json:"sizeBytes"` // virtual size; 0: no host has reported it yet
	State     fleet.CopyState      `json:"state"`     // state of the image's best copy
	Why       string               `json:"why,omitempty"`
	// Own: the image was created for the template version and is deleted with the version.
	Own        bool     `json:"own"`
	Where      []string `json:"where,omitempty"`      // locations of the image's copies; only for users who may see hosts
	AllocBytes int64    `json:"allocBytes,omitempty"` // allocation of one copy
}

// VM is a VM created from a template version.
type VM struct {
	ID     fleet.VMID `json:"id"`
	Name   string     `json:"name"`
	Linked bool       `json:"linked"` // linked clone: a disk is backed by the version's image
}

// Usable reports whether VMs can be created from the disk's image.
func (d Disk) Usable() bool { return d.State == fleet.CopyReady || d.State == fleet.CopyUnverified }

// WhyUnusable returns why no VM can be created from the version now; empty: it can.
func (v Version) WhyUnusable() string {
	if v.DeprecatedAt != nil {
		return "The version is deprecated and allows no new VMs."
	}
	for i, d := range v.Disks {
		switch {
		case d.Usable():
		case d.State == fleet.CopyInProgress:
			return fmt.Sprintf("The image of disk %d is still being created.", i+1)
		default:
			return fmt.Sprintf("The image of disk %d cannot be read now. %s", i+1, d.Why)
		}
	}
	return ""
}

// IsInProgress reports whether a host is still writing an image of the version.
func (v Version) IsInProgress() bool {
	for _, d := range v.Disks {
		if d.State == fleet.CopyInProgress {
			return true
		}
	}
	return false
}

// LinkedClones returns the names of those linked clones that the user may see, and the number of all linked clones.
func (v Version) LinkedClones() (names []string, n int) {
	for _, vm := range v.VMs {
		if vm.Linked {
			names = append(names, "VM "+vm.Name)
		}
	}
	return names, len(names) + v.OthersLinked
}

// linkedClonesRefusal returns why the version's images must not be deleted; empty: no linked clone is backed by them.
func (v Version) linkedClonesRefusal() string {
	names, n := v.LinkedClones()
	switch {
	case n == 0:
		return ""
	case len(names) == 0:
		return fmt.Sprintf("Linked clones of other projects are backed by version %d and would be broken: %s. Ask an administrator.", v.Number, fleet.CountWithUnit(n, "VM"))
	case n > len(names):
		names = append(names[:min(len(names), 5)], fleet.CountWithUnit(n-len(names), "VM")+" of other projects")
	}
	return fmt.Sprintf("Linked clones are backed by version %d and would be broken: %s. Delete them first, or deprecate the version.", v.Number, fleet.JoinFirstNames(names))
}

// SpecText returns the version's spec on one line: "2 vCPUs, 2 GiB, BIOS, 2 disks, 1 NIC".
func (v Version) SpecText() string {
	s := v.Spec
	return strings.Join([]string{
		fleet.CountWithUnit(s.CPUs, "vCPU"), fleet.FormatBytes(int64(s.MemoryMiB) << 20), strings.ToUpper(string(s.Firmware)), fleet.CountWithUnit(len(s.Disks), "disk"), fleet.CountWithUnit(len(s.NICs), "NIC"),
	}, ", ")
}

// View is a template as the API and pages show it.
type View struct {
	Template
	Grants   []fleet.ImageGrant `json:"grants"`   // projects with access to the template, as far as the user may see them
	Versions []Version          `json:"versions"` // newest first
}

// PublishedToText returns the projects that the template is published to, as text.
func (v View) PublishedToText() string { return fleet.ImageView{Grants: v.Grants}.PublishedToText() }

// OpenToProject reports whether the project may use the template, by the grants that the user may see.
func (v View) OpenToProject(project fleet.ProjectID) bool {
	return fleet.GrantedTo(project, v.Grants)
}

// Newest returns the newest version that is not deprecated, or nil.
func (v View) Newest() *Version {
	for i := range v.Versions {
		if v.Versions[i].DeprecatedAt == nil {
			return &v.Versions[i]
		}
	}
	return nil
}

// Version returns the version with the ID, or the newest for an empty ID; nil: no such version.
func (v View) Version(id fleet.TemplateVersionID) *Version {
	if id == "" {
		return v.Newest()
	}
	for i := range v.Versions {
		if v.Versions[i].ID == id {
			return &v.Versions[i]
		}
	}
	return nil
}

var actions = fleet.ActionTable[View]{
	{Action: fleet.ActNewVM, Why: func(v View) string {
		newest := v.Newest()
		switch {
		case len(v.Versions) == 0:
			return "The template has no version. Create one from a VM."
		case newest == nil:
			return "All versions are deprecated. Offer one again, or create a new one from a VM."
		}
		return newest.WhyUnusable()
	}},
	{Action: fleet.ActPublish},
	{Action: fleet.ActEdit},
	{Action: fleet.ActDelete, Why: func(v View) string {
		for _, version := range v.Versions {
			if why := cmp.Or(version.linkedClonesRefusal(), version.beingCreatedRefusal()); why != "" {
				return why
			}
		}
		return ""
	}},
}

// Allows reports whether the template allows the action now; the string is the reason if not. Actions lists the state
// of every action.
func (v View) Allows(a fleet.Action) (bool, string) { return actions.Allows(v, a) }
func (v View) Actions() []fleet.ActionState         { return actions.States(v) }

func (v Version) beingCreatedRefusal() string {
	if v.IsInProgress() {
		return fmt.Sprintf("An image of version %d is still being created. Wait until the task has ended.", v.Number)
	}
	return ""
}

var versionActions = fleet.ActionTable[Version]{
	{Action: fleet.ActNewVM, Why: Version.WhyUnusable},
	{Action: fleet.ActDeprecate, Why: func(v Version) string {
		if v.DeprecatedAt != nil {
			return "The version is already deprecated."
		}
		return ""
	}},
	{Action: fleet.ActOffer, Why: func(v Version) string {
		if v.DeprecatedAt == nil {
			return "The version is not deprecated."
		}
		return ""
	}},
	{Action: fleet.ActDelete, Why: func(v Version) string { return cmp.Or(v.linkedClonesRefusal(), v.beingCreatedRefusal()) }},
}

// Allows reports whether the version allows the action now; the string is the reason if not. States lists the state of
// every action.
func (v Version) Allows(a fleet.Action) (bool, string) { return versionActions.Allows(v, a) }

func (v Version) ActionStates() []fleet.ActionState { return versionActions.States(v) }

// Subject returns the subject of a template, which is also the key of its wake-ups.
func Subject(id fleet.TemplateID) fleet.Subject { return fleet.SubjectOf(fleet.TypeTemplate, id) }

// CheckName adds an error at field if a template cannot have the name.
func CheckName(c *fleet.Checks, field, name string) {
	var named fleet.Checks
	fleet.CheckImageName(&named, field, name)
	if refused, ok := errors.AsType[*fleet.Error](named.Err()); ok {
		c.Add(field, "%s", strings.ReplaceAll(refused.Message, "the image", "the template"))
	}
}
