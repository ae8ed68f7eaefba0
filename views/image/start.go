package image

import (
	"strings"
	"time"

	"quantix/internal/catalog"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// CatalogPath is the address of the image catalog, or of a path below it.
func CatalogPath(below ...string) string {
	return strings.Join(append([]string{"/images/well-known"}, below...), "/")
}

// CatalogPage is the list of catalog images.
type CatalogPage struct {
	Actor fleet.Actor
	Link  kit.Link
	Now   time.Time

	Images       []catalog.View
	Pools, Hosts kit.SelectChoices
	Pool         string // chosen pool
}

func (p CatalogPage) headActions() []kit.ActionButton {
	restore := kit.ActionButton{
		Icon: "history", Word: "Restore the original set", Post: CatalogPath("restore"), Back: CatalogPath(),
		Confirm: "Restore the entries shipped with Quantix? Changes to them are lost. Added entries stay.",
	}.RequirePermission(p.Actor, policy.InfraChange)
	add := kit.ActionButton{Icon: "plus", Word: "Add entry", Href: CatalogPath("new"), Dialog: true}.RequirePermission(p.Actor, policy.InfraChange)
	return []kit.ActionButton{restore, add}
}

func (p CatalogPage) entryActionStates(v catalog.View) []fleet.ActionState {
	return policy.RestrictActions(p.Actor, "image", "", v.Actions())
}

func (p CatalogPage) whyNotPull(v catalog.View) string {
	why := kit.ActionButton{}.WithReasonFrom(p.entryActionStates(v), fleet.ActPull).Why
	if why == "" && len(p.Pools.Options) == 0 {
		why = "There is no pool for the image. Create a pool first."
	}
	return why
}

func (p CatalogPage) entryActions(v catalog.View) []kit.ActionButton {
	states := p.entryActionStates(v)
	edit := kit.ActionButton{Icon: "pencil", Word: "Edit or replace", Href: CatalogPath(string(v.ID), "edit"), Dialog: true}.WithReasonFrom(states, fleet.ActEdit)
	remove := kit.ActionButton{Icon: "trash-2", Word: "Remove from the list", Href: CatalogPath(string(v.ID), "delete"), Dialog: true, Danger: true}.WithReasonFrom(states, fleet.ActDelete)
	if v.ImageID == "" {
		return []kit.ActionButton{edit, remove}
	}
	return []kit.ActionButton{{Icon: "disc", Word: "Open the image", Href: views.ImagePath(v.ImageID)}, edit, remove}
}

// downloadedPoolsText lists the pools with copies of the downloaded image: copies of the newest version first, then
// copies of older versions.
func downloadedPoolsText(v catalog.View) string {
	var words []string
	for _, p := range v.Pulled {
		word := p.PoolName
		if p.HostName != "" {
			word += " on " + p.HostName
		}
		if p.Version != v.Pulled[0].Version {
			word += " (an older version)"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// verificationText describes how downloads of the entry are verified.
func verificationText(v catalog.Image) string {
	switch {
	case v.Checksum != "":
		algorithm, digest, _ := strings.Cut(v.Checksum, ":")
		return strings.ToUpper(algorithm[:3]) + "-" + algorithm[3:] + " " + shortDigest(digest)
	case v.ChecksumURL != "":
		return v.ChecksumURL
	}
	return ""
}

// CatalogForm is the form of a catalog entry.
type CatalogForm struct {
	Entry  catalog.Image // zero: a new entry
	In     CatalogValues
	Errors kit.Errors
}

// CatalogValues holds the values that a person typed in a CatalogForm.
type CatalogValues struct {
	Name, Family, System, Release, Arch, URL, File, Checksum, ChecksumURL string
}

func (f CatalogForm) title() string {
	if f.Entry.ID == "" {
		return "Add a well-known image"
	}
	return "Edit " + f.Entry.Name
}

func (f CatalogForm) submitPath() string {
	if f.Entry.ID == "" {
		return CatalogPath("new")
	}
	return CatalogPath(string(f.Entry.ID), "edit")
}

func (f CatalogForm) field(name string, in kit.Field, at string) kit.Field {
	in.Name, in.Error = name, f.Errors.At(at)
	return in
}
