// Package template renders templates: the list, one template with its versions, its publication to projects, and its
// forms.
package template

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/template"
	"quantix/internal/vmcopy"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of templates.
type ListPage struct {
	kit.List
	Actor     fleet.Actor
	Templates []template.View
}

func (p *ListPage) table() kit.Table[template.View] {
	return kit.Table[template.View]{
		List: &p.List, ID: "template-rows", Live: "templates pools", Every: "30s", Label: "Templates", Type: "template", Head: kit.NameColumn,
		Items: p.Templates, HasRowMenus: true, EmptyContent: emptyListNote(p),
		Row: func(v *template.View) kit.Row {
			return kit.Row{ID: "template-" + string(v.ID), Name: v.Name, Href: views.TemplatePath(v.ID), Menu: views.ContextMenuPath(fleet.TypeTemplate, v.ID)}
		},
		RowCells: row,
	}
}

// CreatedVMCount counts the VMs created from any version of the template.
func CreatedVMCount(v template.View) int {
	n := 0
	for _, x := range v.Versions {
		n += len(x.VMs) + x.Others
	}
	return n
}

// Page shows one template.
type Page struct {
	Actor    fleet.Actor
	Link     kit.Link
	Tab      string
	Template template.View
	Pools    map[fleet.PoolID]string
	Now      time.Time

	Projects kit.SelectChoices // projects without access to the template
	Errors   kit.Errors
}

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: views.TemplatePath(p.Template.ID)}, "tab", p.Tab, kit.Tab{Key: "versions", Text: "Versions"}, kit.Tab{Key: "grants", Text: "Published to"})
}

// Tabs are the keys of the template page's tabs; the first tab is the default.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) seesHosts() bool  { return policy.May(p.Actor, policy.InfraSee, "") }
func (p Page) mayPublish() bool { return policy.May(p.Actor, policy.InfraChange, "") }

func (p Page) path(below ...string) string { return views.TemplatePath(p.Template.ID, below...) }

// liveKeys are the wake-up keys of the page: those of the template, of its images, and of the pools proposed for its
// disks.
func (p Page) liveKeys() string {
	keys := []string{"template:" + string(p.Template.ID)}
	add := func(key string) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, v := range p.Template.Versions {
		for _, d := range v.Spec.Disks {
			add("image:" + string(d.ImageID))
			add("pool:" + string(d.PoolID))
		}
	}
	return strings.Join(keys[:min(len(keys), 16)], " ")
}

func (p Page) poolName(id fleet.PoolID) string {
	if name := p.Pools[id]; name != "" {
		return name
	}
	return "a pool"
}

// NewVMPath is the address of the form for a new VM from a template version. If version is empty, it is the newest
// version.
func NewVMPath(id fleet.TemplateID, version fleet.TemplateVersionID) string {
	at := kit.Link{Path: "/vms/new"}.With("template", string(id))
	if version != "" {
		at = at.With("version", string(version))
	}
	return at.String()
}

// Actions returns the actions on the template, for the menus and the head of its page.
func Actions(a fleet.Actor, v template.View) []kit.ActionButton {
	path := views.TemplatePath(v.ID)
	states := policy.RestrictTemplateActions(a, v.ProjectID, v.Actions())
	remove := kit.ActionButton{Icon: "trash-2", Word: "Delete template", Href: path + "/delete", Dialog: true, Danger: true}.WithReasonFrom(states, fleet.ActDelete)
	return []kit.ActionButton{
		{Icon: "copy", Word: "Open", Href: path},
		kit.ActionButton{Icon: "plus", Word: "New VM from this template", Href: NewVMPath(v.ID, "")}.WithReasonFrom(states, fleet.ActNewVM),
		kit.ActionButton{Icon: "globe", Word: "Publish", Href: views.TabPath(path, "grants")}.WithReasonFrom(states, fleet.ActPublish),
		kit.ActionButton{Icon: "pencil", Word: "Edit", Href: path + "/edit", Dialog: true}.WithReasonFrom(states, fleet.ActEdit),
		remove,
	}
}

// versionActions are the actions on one template version.
func (p Page) versionActions(v template.Version) []kit.ActionButton {
	send := func(to string) []kit.FormValue {
		return []kit.FormValue{{Name: "version", Value: string(v.ID)}, {Name: "deprecated", Value: to}}
	}
	out := []kit.ActionButton{kit.ActionButton{Icon: "plus", Word: "New VM from this template", Href: NewVMPath(p.Template.ID, v.ID)}.WithReasonFrom(v.Actions, fleet.ActNewVM)}
	if v.DeprecatedAt == nil {
		out = append(out, kit.ActionButton{
			Icon: "circle-x", Word: "Deprecate", Post: p.path("deprecate"), PostValues: send("yes"), Back: p.Link.String(),
			Confirm: "Deprecate version " + strconv.Itoa(v.Number) + "? No new VM can be created from this version. Existing VMs do not change.",
		}.WithReasonFrom(v.Actions, fleet.ActDeprecate))
	} else {
		out = append(out, kit.ActionButton{Icon: "eye", Word: "Offer again", Post: p.path("deprecate"), PostValues: send(""), Back: p.Link.String()}.WithReasonFrom(v.Actions, fleet.ActOffer))
	}
	out = append(out, kit.ActionButton{Icon: "columns-3", Word: "Compare with a VM…", Href: views.CompareTemplatePath("", p.Template.ID, v.ID)})
	at := kit.Link{Path: p.path("versions", "delete")}.With("version", string(v.ID))
	return append(out, kit.ActionButton{Icon: "trash-2", Word: "Delete version", Href: at.String(), Dialog: true, Danger: true}.WithReasonFrom(v.Actions, fleet.ActDelete))
}

// nonDefaultField is a field of the spec that differs from a new VM's default.
type nonDefaultField struct{ label, words string }

func nonDefaultFields(s fleet.VMSpec) []nonDefaultField {
	var out []nonDefaultField
	for _, f := range fleet.OptionalFields() {
		if !f.Default(s) {
			out = append(out, nonDefaultField{f.Input.Label, f.Words(s)})
		}
	}
	return out
}

func memoryText(s fleet.VMSpec) string { return kit.Bytes(int64(s.MemoryMiB) << 20) }

// nicText describes a NIC in one phrase.
func nicText(n fleet.NIC) string {
	_, name := n.NetworkKindAndName()
	if n.PortGroup != "" {
		name += ", port group " + n.PortGroup
	}
	if k := len(n.SecurityGroups); k > 0 {
		name += ", " + kit.CountText(k, "security group")
	}
	return name
}

// otherVMsText counts the VMs of projects that the reader may not see.
func otherVMsText(v template.Version) string {
	text := kit.CountText(v.Others, "VM") + " of other projects"
	if v.OthersLinked > 0 {
		text += ", " + strconv.Itoa(v.OthersLinked) + " linked"
	}
	return text
}

// maxShownVMs is the maximum number of VMs that the page names per version.
const maxShownVMs = 12

var copyStateLooks = map[fleet.CopyState]struct{ tone, icon, word string }{
	fleet.CopyReady: {"ok", "circle-check", "Ready"}, fleet.CopyUnverified: {"warn", "circle-dashed", "Not verified"}, fleet.CopyInProgress: {"info", "clock", "Being created"},
	fleet.CopyChanged: {"bad", "circle-x", "Changed"}, fleet.CopyMissing: {"bad", "circle-x", "Missing"}, fleet.CopyUnknown: {"unknown", "circle-dashed", "Unknown"},
}

func grantValue(g fleet.ImageGrant) string {
	if g.ProjectID == "" {
		return GrantToAllProjects
	}
	return string(g.ProjectID)
}

// GrantToAllProjects is the form value for "all projects".
const GrantToAllProjects = "all"

func granteeName(g fleet.ImageGrant) string {
	if g.ProjectID == "" {
		return "All projects"
	}
	return g.ProjectName
}

func (p Page) grantActions(g fleet.ImageGrant) []kit.ActionButton {
	return []kit.ActionButton{{
		Icon: "trash-2", Word: "Withdraw; VMs created from it stay", Danger: true, Post: p.path("grants"), ReplaceTarget: "#grants",
		PostValues: []kit.FormValue{{Name: "project", Value: grantValue(g)}, {Name: "revoke", Value: "yes"}},
	}}
}

// FormValues holds the values that a person typed in a template form.
type FormValues struct {
	Name, Description, Family, System, Release, Arch string
	To, Note, Confirm                                string // To: the template that gets a new version; empty: a new template
	OfImages                                         bool
}

// Form is the data of a template's dialogs, and of the dialog that creates a template from a VM.
type Form struct {
	Template     template.View
	Version      *template.Version // version to delete
	VM           fleet.VMView      // source VM of a new template
	In           FormValues
	Errors       kit.Errors
	OwnTemplates []template.View // templates of the VM's project that can get a new version
}

func (f Form) field(name string, in kit.Field, at ...string) kit.Field {
	in.Name = name
	for _, path := range at {
		if in.Error == "" {
			in.Error = f.Errors.At(path)
		}
	}
	return in
}

func (f Form) backPath() string { return views.TemplatePath(f.Template.ID) }

// whyNotCreate is the reason why no template can be created from the VM, neither from copies of its disks nor from its
// disks' images. Empty: a template can be created.
func (f Form) whyNotCreate() string {
	ok, why := vmcopy.AllowsTemplate(f.VM)
	if images, _ := vmcopy.AllowsTemplateOfImages(f.VM); ok || images {
		return ""
	}
	return why
}

// diskOptions are the choices for the disks of a new version.
func (f Form) diskOptions() []kit.Option {
	return []kit.Option{{Text: "Copies of the disks as they are now"}, {Value: "images", Text: "The images of the disks"}}
}

// diskHint is the hint for the choice of disks: why the disks cannot be copied now, or that the VM can run during the
// copy.
func (f Form) diskHint() string {
	if ok, why := vmcopy.AllowsTemplate(f.VM); !ok {
		return "The disks cannot be copied now: " + why
	}
	if vmcopy.NeedsTemporarySnapshot(f.VM) {
		return "Copies are made from a temporary snapshot, so the VM can run meanwhile."
	}
	return ""
}

func (f Form) canUseDiskImages() bool {
	ok, _ := vmcopy.AllowsTemplateOfImages(f.VM)
	return ok && len(f.VM.Spec.Disks) > 0
}

func (f Form) templateOptions() []kit.Option {
	out := []kit.Option{{Text: "A new template"}}
	for _, v := range f.OwnTemplates {
		out = append(out, kit.Option{Value: string(v.ID), Text: "A version of " + v.Name})
	}
	return out
}

var osFamilyOptions = func() []kit.Option {
	out := []kit.Option{{Text: "Unspecified"}}
	for _, f := range fleet.OSFamilies {
		out = append(out, kit.Option{Value: f, Text: strings.ToUpper(f[:1]) + f[1:]})
	}
	return out
}()

func (f Form) ownImageCount() int {
	n := 0
	for _, v := range f.Template.Versions {
		if f.Version != nil && v.ID != f.Version.ID {
			continue
		}
		for _, d := range v.Disks {
			if d.Own {
				n++
			}
		}
	}
	return n
}
