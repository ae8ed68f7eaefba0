// Package image renders the image catalog: the list, an image with its versions and copies, and its publication to
// projects.
package image

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/catalog"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of images.
type ListPage struct {
	kit.List
	Actor  fleet.Actor
	Images []fleet.ImageView
}

func (p *ListPage) table() kit.Table[fleet.ImageView] {
	return kit.Table[fleet.ImageView]{
		List: &p.List, ID: "image-rows", Live: "images pools", Every: "30s", Label: "Images", Type: "image", Head: kit.NameColumn,
		Items: p.Images, HasRowMenus: true, EmptyContent: emptyListNote(p),
		Row: func(v *fleet.ImageView) kit.Row {
			return kit.Row{ID: "image-" + string(v.ID), Name: v.Name, Href: views.ImagePath(v.ID), Menu: views.ContextMenuPath(fleet.TypeImage, v.ID)}
		},
		RowCells: row,
	}
}

// ReadyCopiesText describes how many copies of the newest version are ready for new VMs: "2 of 3".
func ReadyCopiesText(v fleet.ImageView) string {
	newest := v.Newest()
	if newest == nil {
		return ""
	}
	good := 0
	for _, c := range newest.Copies {
		if c.Usable() {
			good++
		}
	}
	return strconv.Itoa(good) + " of " + strconv.Itoa(len(newest.Copies))
}

// OwnerName names the owner of the image: a template, a project or the fleet.
func OwnerName(v fleet.ImageView) string {
	if v.Template != "" {
		return "Template " + v.Template
	}
	if v.ProjectName != "" {
		return "Project " + v.ProjectName
	}
	return "Fleet"
}

func newImageAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New image", Href: "/images/new"}.RequirePermission(a, policy.InfraChange)
}

// Page shows one image.
type Page struct {
	Actor fleet.Actor
	Link  kit.Link
	Tab   string
	Image fleet.ImageView
	Now   time.Time

	Projects kit.SelectChoices // projects without access to the image
	Errors   kit.Errors
}

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: views.ImagePath(p.Image.ID)}, "tab", p.Tab, kit.Tab{Key: "versions", Text: "Versions and copies"}, kit.Tab{Key: "grants", Text: "Published to"})
}

// Tabs are the keys of the image page's tabs; the first tab is the default.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) seesHosts() bool { return policy.May(p.Actor, policy.InfraSee, "") }
func (p Page) mayEdit() bool   { return policy.May(p.Actor, policy.InfraChange, "") }

func (p Page) path(below ...string) string { return views.ImagePath(p.Image.ID, below...) }

// liveKeys are the wake-up keys of the page: those of the image, and of the status of the pools that hold its copies.
func (p Page) liveKeys() string {
	keys := []string{"image:" + string(p.Image.ID)}
	for _, v := range p.Image.Versions {
		for _, c := range v.Copies {
			keys = append(keys, "pool:"+string(c.PoolID))
		}
	}
	return strings.Join(keys[:min(len(keys), 16)], " ")
}

// Actions returns the actions on the image, for the menus and the head of its page.
func Actions(a fleet.Actor, v fleet.ImageView) []kit.ActionButton {
	path := views.ImagePath(v.ID)
	states := policy.RestrictImageActions(a, v)
	act := func(icon, word, below string, action fleet.Action) kit.ActionButton {
		return kit.ActionButton{Icon: icon, Word: word, Href: path + "/" + below, Dialog: true}.WithReasonFrom(states, action)
	}
	remove := act("trash-2", "Delete image", "delete", fleet.ActDelete)
	remove.Danger = true
	return []kit.ActionButton{
		{Icon: "disc", Word: "Open", Href: path},
		act("plus", "Add version", "versions/new", fleet.ActVersion),
		act("copy", "Copy to a pool", "copies/new", fleet.ActCopy),
		kit.ActionButton{Icon: "globe", Word: "Publish", Href: views.TabPath(path, "grants")}.WithReasonFrom(states, fleet.ActPublish),
		act("pencil", "Edit", "edit", fleet.ActEdit),
		remove,
	}
}

// copyActions are the actions on one copy of the image.
func (p Page) copyActions(c fleet.ImageCopy) []kit.ActionButton {
	states := policy.RestrictActions(p.Actor, "image", "", c.Actions)
	send := []kit.FormValue{{Name: "pool", Value: string(c.PoolID)}, {Name: "volume", Value: c.Volume}, {Name: "host", Value: string(c.HostID)}}
	verify := kit.ActionButton{Icon: "shield-check", Word: "Verify checksum", Post: p.path("copies", "verify"), PostValues: send, Back: p.Link.String()}.WithReasonFrom(states, fleet.ActVerify)
	forget := kit.ActionButton{
		Icon: "x", Word: "Remove from the library", Post: p.path("copies", "forget"), PostValues: send, Back: p.Link.String(), Confirm: "Remove " + c.Volume + " from the library? The file stays." + p.deletionEffect(c),
	}.WithReasonFrom(states, fleet.ActForget)
	at := kit.Link{Path: p.path("copies", "delete")}.With("pool", string(c.PoolID)).With("volume", c.Volume)
	if c.HostID != "" {
		at = at.With("host", string(c.HostID))
	}
	remove := kit.ActionButton{Icon: "trash-2", Word: "Delete this copy", Href: at.String(), Dialog: true, Danger: true}.WithReasonFrom(states, fleet.ActDelete)
	return []kit.ActionButton{verify, forget, remove}
}

// deletionEffect describes what the portal deletes together with the copy: the version or the image. It is empty if
// only the copy is deleted.
func (p Page) deletionEffect(c fleet.ImageCopy) string {
	last := false
	for _, v := range p.Image.Versions {
		for _, o := range v.Copies {
			if o.Ref() == c.Ref() && o.HostID == c.HostID {
				last = len(v.Copies) == 1
			}
		}
	}
	switch {
	case !last:
		return ""
	case len(p.Image.Versions) > 1:
		return " This is the only copy of the version, so the version is deleted, too."
	}
	return " This is the only copy of the image, so the image and its publications are deleted, too."
}

var copyStateLooks = map[fleet.CopyState]struct{ tone, icon, word string }{
	fleet.CopyReady: {"ok", "circle-check", "Ready"}, fleet.CopyUnverified: {"warn", "circle-dashed", "Not verified"}, fleet.CopyInProgress: {"info", "clock", "Being copied"},
	fleet.CopyChanged: {"bad", "circle-x", "Changed"}, fleet.CopyMissing: {"bad", "circle-x", "Missing"}, fleet.CopyUnknown: {"unknown", "circle-dashed", "Unknown"},
}

func shortDigest(digest string) string {
	if len(digest) < 16 {
		return digest
	}
	return digest[:16] + "…"
}

// GrantToAllProjects is the form value for "all projects".
const GrantToAllProjects = "all"

func grantValue(g fleet.ImageGrant) string {
	if g.ProjectID == "" {
		return GrantToAllProjects
	}
	return string(g.ProjectID)
}

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

// FormValues holds the values that a person typed in an image form.
type FormValues struct {
	Name, Description, Owner, Family, System, Release, Arch string
	Public, Files                                           bool

	From, Pool, Host, Volume, URL, Checksum, ChecksumURL, VM, Disk string
	Version, Confirm                                               string
}

// Form is the data of an image's dialogs.
type Form struct {
	Image  fleet.ImageView // zero: a new image
	Copy   fleet.ImageCopy // copy to delete
	In     FormValues
	Member bool // the actor is a member of the image's project: files are always deleted
	Errors kit.Errors
	Starts []catalog.View // catalog entries that can prefill the form of a new image

	Projects, Pools, Hosts kit.SelectChoices
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

func (f Form) backPath() string {
	if f.Image.ID == "" {
		return "/images"
	}
	return views.ImagePath(f.Image.ID)
}

var sourceOptions = []kit.Option{{Value: "url", Text: "Download from a URL"}, {Value: "file", Text: "File in a pool"}, {Value: "vm", Text: "Disk of a powered-off VM"}}

var osFamilyOptions = func() []kit.Option {
	out := []kit.Option{{Text: "Unspecified"}}
	for _, f := range fleet.OSFamilies {
		out = append(out, kit.Option{Value: f, Text: strings.ToUpper(f[:1]) + f[1:]})
	}
	return out
}()

func (f Form) versions() []kit.Option {
	var out []kit.Option
	for _, v := range f.Image.Versions {
		out = append(out, kit.Option{Value: string(v.ID), Text: "Version " + strconv.Itoa(v.Number)})
	}
	return out
}

func newImagePath(i catalog.View) string {
	return kit.Link{Path: "/images/new"}.With("start", string(i.ID)).String()
}

func (f Form) deleteCopyPath() string {
	at := kit.Link{Path: views.ImagePath(f.Image.ID, "copies", "delete")}.With("pool", string(f.Copy.PoolID)).With("volume", f.Copy.Volume)
	if f.Copy.HostID != "" {
		at = at.With("host", string(f.Copy.HostID))
	}
	return at.String()
}

func sizeOrDash(n int64) string {
	if n <= 0 {
		return "–"
	}
	return kit.Bytes(n)
}
