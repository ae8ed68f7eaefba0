package fleet

import (
	"fmt"
	"strings"
	"time"
)

// OSFacts are what people say of the system in an image.
type OSFacts struct {
	Family  string `json:"family,omitempty" enum:"linux,windows,bsd,other"`
	Name    string `json:"name,omitempty"`    // "Debian"
	Version string `json:"version,omitempty"` // "12"
	Arch    string `json:"arch,omitempty"`    // "x86_64"
}

// OSFamilies are the families that people choose from.
var OSFamilies = []string{"linux", "windows", "bsd", "other"}

// Words are the facts on one line.
func (o OSFacts) Words() string {
	return strings.Join(strings.Fields(o.Name+" "+o.Version+" "+o.Arch), " ")
}

// Image is an entry of the library: a name, with versions that lie as copies in pools.
type Image struct {
	ID          ImageID   `json:"id"`
	Name        string    `json:"name"`
	ProjectID   ProjectID `json:"projectId,omitempty"` // whose it is; empty: the fleet's
	ProjectName string    `json:"projectName,omitempty"`
	Description string    `json:"description,omitempty"`
	OS          OSFacts   `json:"os"`
	CreatedBy   string    `json:"createdBy,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`

	// TemplateID and Template name the template whose disk it is: it comes, goes and is published with that.
	TemplateID TemplateID `json:"templateId,omitempty"`
	Template   string     `json:"template,omitempty"`
}

// ofTemplate is why what is asked is asked of its template; empty: it belongs to none.
func (i Image) ofTemplate(what string) string {
	if i.TemplateID == "" {
		return ""
	}
	return fmt.Sprintf("It is a disk of the template %s, %s.", i.Template, what)
}

// ImageGrant is one of those to whom an image is published.
type ImageGrant struct {
	ProjectID   ProjectID `json:"projectId,omitempty"` // empty: every project
	ProjectName string    `json:"projectName,omitempty"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at"`
}

// ImageVersion is one state of an image. Its bytes never change.
type ImageVersion struct {
	ID            ImageVersionID `json:"id"`
	ImageID       ImageID        `json:"imageId"`
	Number        int            `json:"number"` // from 1; the highest is the newest
	Format        string         `json:"format"`
	CapacityBytes int64          `json:"capacityBytes"`     // as a guest sees it
	SHA256        string         `json:"sha256,omitempty"`  // of its file, in hexadecimal; empty: no host has told it yet
	Source        string         `json:"source,omitempty"`  // where it came from, in words
	StartID       StartImageID   `json:"startId,omitempty"` // the well-known image that it was pulled of
	CreatedBy     string         `json:"createdBy,omitempty"`
	CreatedAt     time.Time      `json:"createdAt"`
	Offered       bool           `json:"offered"`          // a host that is heard has a copy that VMs can be made from
	Verified      bool           `json:"verified"`         // one of those copies has been verified, and not been touched since
	Copies        []ImageCopy    `json:"copies,omitempty"` // for those who see hosts
	VMs           []string       `json:"vms,omitempty"`    // a few names of VMs that are made from it, for those who see hosts
}

// ISO reports whether the version is a disc.
func (v ImageVersion) ISO() bool { return v.Format == "iso" }

// CopyState is how a copy of a version stands, derived from what hosts say.
type CopyState string

const (
	CopyReady      CopyState = "ready"      // a host says that it has the version's bytes
	CopyUnverified CopyState = "unverified" // it looks as it did; no host has told its checksum
	CopyComing     CopyState = "coming"     // a host is at it
	CopyChanged    CopyState = "changed"    // it is another file by now, or has other bytes
	CopyMissing    CopyState = "missing"    // hosts that have the pool do not have it
	CopyUnknown    CopyState = "unknown"    // no host that has it is heard
)

// ImageCopy is a version as it lies in a pool.
type ImageCopy struct {
	PoolID     PoolID     `json:"poolId"`
	PoolName   string     `json:"poolName"`
	HostID     HostID     `json:"hostId,omitempty"` // of a local pool: whose file it is
	HostName   string     `json:"hostName,omitempty"`
	Volume     string     `json:"volume"`
	State      CopyState  `json:"state"`
	Why        string     `json:"why,omitempty"` // of one that is not offered: why, in the host's words where they are its
	AllocBytes int64      `json:"allocBytes,omitempty"`
	SHA256     string     `json:"sha256,omitempty"` // as its host computed it, while the file is as it was then
	SeenAt     *time.Time `json:"seenAt,omitempty"` // when a host that has it was last heard
	AddedBy    string     `json:"addedBy"`
	AddedAt    time.Time  `json:"addedAt"`
	// Overlays are volumes and VMs' disks that stand on it, as overlays.
	Overlays []string      `json:"standOn,omitempty"`
	Work     string        `json:"work,omitempty"` // what is done with it now
	Actions  []ActionState `json:"actions,omitempty"`
}

// Ref names the copy's volume.
func (c ImageCopy) Ref() Volref { return Volref{PoolID: c.PoolID, Volume: c.Volume} }

// Offered reports whether VMs can be made from the copy.
func (c ImageCopy) Offered() bool { return c.State == CopyReady || c.State == CopyUnverified }

// Where is the copy's place in words.
func (c ImageCopy) Where() string {
	if c.HostName == "" {
		return "pool " + c.PoolName
	}
	return "pool " + c.PoolName + " on " + c.HostName
}

// ImageView is an image as people see it.
type ImageView struct {
	Image
	Grants   []ImageGrant   `json:"grants"`   // to whom it is published, as far as the reader may know
	Versions []ImageVersion `json:"versions"` // the newest first
}

// Newest is the newest version; nil: there is none.
func (v ImageView) Newest() *ImageVersion {
	if len(v.Versions) == 0 {
		return nil
	}
	return &v.Versions[0]
}

// Version is the version of that id, or the newest where none is named; nil: there is none.
func (v ImageView) Version(id ImageVersionID) *ImageVersion {
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

// Published is to whom, in words.
func (v ImageView) Published() string {
	var names []string
	for _, g := range v.Grants {
		if g.ProjectID == "" {
			return "all projects"
		}
		names = append(names, g.ProjectName)
	}
	return strings.Join(names, ", ")
}

// copies counts the copies, and names what stands on one.
func (v ImageView) copies() (n, coming int, stands []string) {
	for _, version := range v.Versions {
		n += len(version.Copies)
		for _, c := range version.Copies {
			stands = append(stands, c.Overlays...)
			if c.Work != "" {
				coming++
			}
		}
	}
	return n, coming, stands
}

// What can be asked of images and their copies, beside what can be asked of other nouns.
const (
	ActPublish  Action = "publish"  // of an image, to a project
	ActWithdraw Action = "withdraw" // of an image, from a project
	ActVersion  Action = "version"  // of an image: one more
	ActCopy     Action = "copy"     // of an image, to a pool
	ActVerify   Action = "verify"   // of a copy: compute its checksum
	ActForget   Action = "forget"   // of a copy: take it out of the library, and leave the file
)

var imageOffers = offers[ImageView]{
	{ActVersion, func(v ImageView) string { return v.ofTemplate("of which a new version is made of a VM") }},
	{ActCopy, func(v ImageView) string {
		newest := v.Newest()
		switch {
		case newest == nil:
			return "It has no version yet."
		case !newest.Offered:
			return "No copy of its newest version can be read now: " + newest.why()
		}
		return ""
	}},
	{ActPublish, func(v ImageView) string { return v.ofTemplate("with which it is published") }},
	{ActEdit, func(v ImageView) string { return v.ofTemplate("after which it is called") }},
	{ActDelete, func(v ImageView) string {
		if why := v.ofTemplate("with which it goes"); why != "" {
			return why
		}
		_, coming, stands := v.copies()
		switch {
		case len(stands) > 0:
			return fmt.Sprintf("%s on it as overlays and would be broken: %s. Delete or flatten them first.", verbs(len(stands), "One disk stands", "disks stand"), someOf(stands))
		case coming > 0:
			return "A copy of it is at work. Wait until that has ended."
		}
		return ""
	}},
}

// why is what keeps the version's copies from being read.
func (v ImageVersion) why() string {
	for _, c := range v.Copies {
		if c.Why != "" {
			return c.Why
		}
	}
	return "it has none."
}

// Allows says whether the image can be asked for the action now, and if not, why. Actions lists all of them.
func (v ImageView) Allows(a Action) (bool, string) { return imageOffers.allows(v, a) }
func (v ImageView) Actions() []ActionState         { return imageOffers.states(v) }

// copyUse is a copy, and whether it is the last of its version that can be read.
type copyUse struct {
	ImageCopy
	last bool
}

var copyOffers = offers[copyUse]{
	{ActVerify, func(c copyUse) string {
		switch {
		case c.Work != "":
			return "It is at work: " + strings.ToLower(c.Work) + "."
		case c.State == CopyMissing || c.State == CopyUnknown:
			return c.Why
		}
		return ""
	}},
	{ActForget, func(c copyUse) string {
		switch {
		case len(c.Overlays) > 0:
			return fmt.Sprintf("%s on it as overlays: %s.", verbs(len(c.Overlays), "One disk stands", "disks stand"), someOf(c.Overlays))
		case c.Work != "":
			return "It is at work: " + strings.ToLower(c.Work) + "."
		}
		return ""
	}},
	{ActDelete, func(c copyUse) string {
		switch {
		case len(c.Overlays) > 0:
			return fmt.Sprintf("%s on it as overlays and would be broken: %s.", verbs(len(c.Overlays), "One disk stands", "disks stand"), someOf(c.Overlays))
		case c.Work != "":
			return "It is at work: " + strings.ToLower(c.Work) + "."
		case c.State == CopyUnknown:
			return c.Why
		case c.last:
			return "It is the last copy of its version. Delete the image, or take the copy out of the library and leave the file."
		}
		return ""
	}},
}

// CopyAllows says whether a copy of the version can be asked for the action now, and if not, why. CopyActions lists all of them.
func (v ImageVersion) CopyAllows(c ImageCopy, a Action) (bool, string) {
	return copyOffers.allows(v.use(c), a)
}
func (v ImageVersion) CopyActions(c ImageCopy) []ActionState { return copyOffers.states(v.use(c)) }

func (v ImageVersion) use(c ImageCopy) copyUse {
	others := 0
	for _, o := range v.Copies {
		if o.Ref() == c.Ref() && o.HostID == c.HostID {
			continue
		}
		if o.Offered() {
			others++
		}
	}
	return copyUse{c, others == 0}
}

func verbs(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// someOf names a few.
func someOf(names []string) string {
	if more := len(names) - 5; more > 0 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// CheckImageName notes at field where no image can have the name.
func CheckImageName(c *Checks, field, name string) {
	switch {
	case name == "" || len(name) > 200 || name != strings.TrimSpace(name) || !plain(name):
		c.Add(field, "Name the image on one line, with 200 bytes at most.")
	case strings.ContainsFunc(name, unseen):
		c.Add(field, "The name holds %s", saysUnseen)
	}
}

// Check notes at field where the facts are none.
func (o OSFacts) Check(c *Checks, field string) {
	known := o.Family == ""
	for _, f := range OSFamilies {
		known = known || f == o.Family
	}
	if !known {
		c.Add(field+".family", "The family is %s.", strings.Join(OSFamilies, ", "))
	}
	for _, part := range []struct{ name, text string }{{"name", o.Name}, {"version", o.Version}, {"arch", o.Arch}} {
		if len(part.text) > 64 || !plain(part.text) {
			c.Add(field+"."+part.name, "Write it on one line, with 64 bytes at most.")
		}
	}
}

// SubjectImage is the subject of an image, and so the key of its wake-ups.
func SubjectImage(id ImageID) Subject { return SubjectOf(TypeImage, id) }

// CopyName is what a version's file is called in a pool where people gave it no name.
func CopyName(image string, number int, format string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, image)
	for _, end := range []string{".qcow2", ".iso", ".raw", ".img"} {
		name = strings.TrimSuffix(name, end)
	}
	name = strings.Trim(name, "-._")
	if len(name) > 100 {
		name = name[:100]
	}
	if name == "" {
		name = "image"
	}
	return fmt.Sprintf("%s-v%d.%s", name, number, format)
}

// MaxProjectImages bounds the images that belong to one project.
const MaxProjectImages = 50

// AllowsImage says whether an image can be made of the VM's disk now, and if not, why.
func (v VMView) AllowsImage(disk Volref) (bool, string) {
	ok, why := v.Allows(ActEdit)
	d := v.Spec.diskOf(disk)
	switch {
	case !ok:
		return false, why
	case v.Phase == PhaseUnknown:
		return false, "Its host is not heard, so nobody knows what the VM does now."
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.On() || v.Ordered != "" && v.Ordered != Stopped:
		return false, "The VM is on, so a copy of its disk would not be whole. Shut it down first."
	case v.FaultOf(disk) != nil:
		return false, v.FaultOf(disk).Text
	case v.changedDisks():
		return false, "Somebody changed its disks on the host. Take that over, or put it back, first."
	case v.HeldBySnapshots() != "":
		return false, v.HeldBySnapshots()
	case d.Encryption != "":
		return false, "It is encrypted with a passphrase that its host keeps for itself, so it is not copied."
	case d.staysRaw() != "":
		return false, "It " + d.staysRaw()
	case d.Shareable:
		return false, "It is shared with other VMs, which may write to it meanwhile. Take it out of all of them, and copy the volume in its pool."
	}
	return true, ""
}
