package image

import (
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// StartPath is the address of the image catalog, or of a path below it.
func StartPath(below ...string) string {
	return strings.Join(append([]string{"/images/well-known"}, below...), "/")
}

// StartPage is the list of catalog images.
type StartPage struct {
	Actor fleet.Actor
	Link  kit.Link
	Now   time.Time

	Images       []fleet.StartImageView
	Pools, Hosts kit.Choices
	Pool         string // chosen pool
}

func (p StartPage) heads() []kit.Act {
	restore := kit.Act{
		Icon: "history", Word: "Restore the original set", Post: StartPath("restore"), Back: StartPath(),
		Sure: "Restore the entries shipped with Quantix? Changes to them are lost. Added entries stay.",
	}.Needs(p.Actor, policy.InfraChange)
	add := kit.Act{Icon: "plus", Word: "Add entry", Href: StartPath("new"), Dialog: true}.Needs(p.Actor, policy.InfraChange)
	return []kit.Act{restore, add}
}

func (p StartPage) states(v fleet.StartImageView) []fleet.ActionState {
	return policy.Offer(p.Actor, "image", "", v.Actions())
}

func (p StartPage) pullWhy(v fleet.StartImageView) string {
	why := kit.Act{}.As(p.states(v), fleet.ActPull).Why
	if why == "" && len(p.Pools.Options) == 0 {
		why = "There is no pool for the image. Create a pool first."
	}
	return why
}

func (p StartPage) acts(v fleet.StartImageView) []kit.Act {
	states := p.states(v)
	edit := kit.Act{Icon: "pencil", Word: "Edit or replace", Href: StartPath(string(v.ID), "edit"), Dialog: true}.As(states, fleet.ActEdit)
	remove := kit.Act{Icon: "trash-2", Word: "Remove from the list", Href: StartPath(string(v.ID), "delete"), Dialog: true, Danger: true}.As(states, fleet.ActDelete)
	if v.ImageID == "" {
		return []kit.Act{edit, remove}
	}
	return []kit.Act{{Icon: "disc", Word: "Open the image", Href: views.ImagePath(v.ImageID)}, edit, remove}
}

// pulls lists the pools with copies of the downloaded image: copies of the newest version first, then copies of older
// versions.
func pulls(v fleet.StartImageView) string {
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

// checkedBy describes how downloads of the entry are verified.
func checkedBy(v fleet.StartImage) string {
	switch {
	case v.Checksum != "":
		algorithm, digest, _ := strings.Cut(v.Checksum, ":")
		return strings.ToUpper(algorithm[:3]) + "-" + algorithm[3:] + " " + short(digest)
	case v.ChecksumURL != "":
		return v.ChecksumURL
	}
	return ""
}

// StartForm is the form of a catalog entry.
type StartForm struct {
	Entry  fleet.StartImage // zero: a new entry
	In     StartIn
	Errors kit.Errors
}

// StartIn holds the values that a person typed in a StartForm.
type StartIn struct {
	Name, Family, System, Release, Arch, URL, File, Checksum, ChecksumURL string
}

func (f StartForm) title() string {
	if f.Entry.ID == "" {
		return "Add a well-known image"
	}
	return "Edit " + f.Entry.Name
}

func (f StartForm) action() string {
	if f.Entry.ID == "" {
		return StartPath("new")
	}
	return StartPath(string(f.Entry.ID), "edit")
}

func (f StartForm) field(name string, in kit.Field, at string) kit.Field {
	in.Name, in.Error = name, f.Errors.At(at)
	return in
}
