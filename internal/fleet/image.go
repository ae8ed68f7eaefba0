package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OSFacts describe the operating system in an image, as users entered it.
type OSFacts struct {
	Family  string `json:"family,omitempty" enum:"linux,windows,bsd,other"`
	Name    string `json:"name,omitempty"`    // "Debian"
	Version string `json:"version,omitempty"` // "12"
	Arch    string `json:"arch,omitempty"`    // "x86_64"
}

// OSFamilies are the choices of OSFacts.Family.
var OSFamilies = []string{"linux", "windows", "bsd", "other"}

// Text returns the facts on one line: "Debian 12 x86_64".
func (o OSFacts) Text() string {
	return strings.Join(strings.Fields(o.Name+" "+o.Version+" "+o.Arch), " ")
}

// Image is an image of the library. Its versions are stored as copies in pools.
type Image struct {
	ID          ImageID   `json:"id"`
	Name        string    `json:"name"`
	ProjectID   ProjectID `json:"projectId,omitempty"` // owning project; empty: the image belongs to no project
	ProjectName string    `json:"projectName,omitempty"`
	Description string    `json:"description,omitempty"`
	OS          OSFacts   `json:"os"`
	CreatedBy   string    `json:"createdBy,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`

	// TemplateID and Template identify the template that has this image as a disk. The image is created, deleted and
	// published with the template.
	TemplateID TemplateID `json:"templateId,omitempty"`
	Template   string     `json:"template,omitempty"`
}

// templateDiskRefusal returns why an action must be done on the template that the image belongs to; empty: the image
// belongs to no template. what completes the sentence "The image is a disk of the template T, …".
func (i Image) templateDiskRefusal(what string) string {
	if i.TemplateID == "" {
		return ""
	}
	return fmt.Sprintf("The image is a disk of the template %s, %s.", i.Template, what)
}

// ProjectGrant is the publication of an object, such as a pool or an image, to one project or to all projects.
type ProjectGrant struct {
	ProjectID   ProjectID `json:"projectId"` // empty: every project
	ProjectName string    `json:"projectName"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at,omitzero"`
}

// Grants of images, templates and networks have names of their own in the API's description.
type (
	ImageGrant   ProjectGrant
	NetworkGrant ProjectGrant
)

// GrantedTo reports whether the grants publish the object to the project.
func GrantedTo[G ProjectGrant | ImageGrant | NetworkGrant](project ProjectID, grants []G) bool {
	return slices.ContainsFunc(grants, func(g G) bool { of := ProjectGrant(g).ProjectID; return of == "" || of == project })
}

// ProjectGrants converts the grants.
func ProjectGrants[G ImageGrant | NetworkGrant](grants []G) []ProjectGrant {
	out := make([]ProjectGrant, len(grants))
	for i, g := range grants {
		out[i] = ProjectGrant(g)
	}
	return out
}

// ImageVersion is one version of an image. Its content never changes.
type ImageVersion struct {
	ID            ImageVersionID `json:"id"`
	ImageID       ImageID        `json:"imageId"`
	Number        int            `json:"number"` // from 1; the highest is the newest
	Format        string         `json:"format"`
	CapacityBytes int64          `json:"capacityBytes"` // virtual size
	// SHA256: checksum of the version's file, in hexadecimal; empty: no host has reported it yet
	SHA256    string       `json:"sha256,omitempty"`
	Source    string       `json:"source,omitempty"`  // origin, as text
	StartID   StartImageID `json:"startId,omitempty"` // entry of the image catalog that the version was downloaded from
	CreatedBy string       `json:"createdBy,omitempty"`
	CreatedAt time.Time    `json:"createdAt"`
	Usable    bool         `json:"offered"` // an online host has a copy that can be the source of new VMs
	// Verified: the checksum of a usable copy was verified, and the file is unchanged since
	Verified bool        `json:"verified"`
	Copies   []ImageCopy `json:"copies,omitempty"` // only for users who may see hosts
	// VMs: names of some VMs created from the version; only for users who may see hosts
	VMs []string `json:"vms,omitempty"`
}

// IsISO reports whether the version is an ISO image.
func (v ImageVersion) IsISO() bool { return v.Format == "iso" }

// CopyState is the state of a copy of an image version, derived from the reports of hosts.
type CopyState string

const (
	CopyReady      CopyState = "ready"      // a host has verified the version's checksum
	CopyUnverified CopyState = "unverified" // the file looks unchanged, but no host has computed its checksum
	CopyInProgress CopyState = "coming"     // a host is writing the copy
	CopyChanged    CopyState = "changed"    // the file was replaced, or its checksum differs
	CopyMissing    CopyState = "missing"    // hosts with the pool report no such file
	CopyUnknown    CopyState = "unknown"    // no host with the copy is online
)

// ImageCopy is the copy of an image version in one pool.
type ImageCopy struct {
	PoolID   PoolID    `json:"poolId"`
	PoolName string    `json:"poolName"`
	HostID   HostID    `json:"hostId,omitempty"` // for a local pool: host that has the file
	HostName string    `json:"hostName,omitempty"`
	Volume   string    `json:"volume"`
	State    CopyState `json:"state"`
	// Why: why no VM can be created from the copy; the host's own message if there is one
	Why        string     `json:"why,omitempty"`
	AllocBytes int64      `json:"allocBytes,omitempty"`
	SHA256     string     `json:"sha256,omitempty"` // as the host computed it; empty once the file has changed
	SeenAt     *time.Time `json:"seenAt,omitempty"` // when a host with the copy was last seen
	AddedBy    string     `json:"addedBy"`
	AddedAt    time.Time  `json:"addedAt"`
	// Overlays are names of volumes and VM disks that are backed by the copy.
	Overlays []string      `json:"overlays,omitempty"`
	Work     string        `json:"work,omitempty"` // title of the running task on the copy
	Actions  []ActionState `json:"actions,omitempty"`
}

// Ref returns the reference of the copy's volume.
func (c ImageCopy) Ref() Volref { return Volref{PoolID: c.PoolID, Volume: c.Volume} }

// Usable reports whether VMs can be created from the copy.
func (c ImageCopy) Usable() bool { return c.State == CopyReady || c.State == CopyUnverified }

// LocationText returns the copy's location as text.
func (c ImageCopy) LocationText() string {
	if c.HostName == "" {
		return "pool " + c.PoolName
	}
	return "pool " + c.PoolName + " on " + c.HostName
}

// ImageView is an image as the API and pages show it.
type ImageView struct {
	Image
	Grants   []ImageGrant   `json:"grants"`   // projects with access to the image, as far as the user may see them
	Versions []ImageVersion `json:"versions"` // newest first
}

// Newest returns the newest version, or nil.
func (v ImageView) Newest() *ImageVersion {
	if len(v.Versions) == 0 {
		return nil
	}
	return &v.Versions[0]
}

// Version returns the version with the ID, or the newest for an empty ID; nil: no such version.
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

// PublishedToText returns the projects that the image is published to, as text.
func (v ImageView) PublishedToText() string {
	var names []string
	for _, g := range v.Grants {
		if g.ProjectID == "" {
			return "all projects"
		}
		names = append(names, g.ProjectName)
	}
	return strings.Join(names, ", ")
}

// countCopies returns the number of copies, the number of copies that a host is still writing, and the volumes backed
// by any copy.
func (v ImageView) countCopies() (n, inProgress int, overlays []string) {
	for _, version := range v.Versions {
		n += len(version.Copies)
		for _, c := range version.Copies {
			overlays = append(overlays, c.Overlays...)
			if c.Work != "" {
				inProgress++
			}
		}
	}
	return n, inProgress, overlays
}

// Actions that only images, their copies, catalog entries and templates have.
const (
	ActPublish  Action = "publish"  // of an image: publish it to a project
	ActWithdraw Action = "withdraw" // of an image: stop publishing it to a project
	ActVersion  Action = "version"  // of an image: add a version
	ActCopy     Action = "copy"     // of an image: copy it to a pool
	ActVerify   Action = "verify"   // of a copy: compute its checksum
	ActForget   Action = "forget"   // of a copy: remove it from the library and keep the file

	ActPull Action = "pull" // of a catalog entry: download the image

	ActNewVM     Action = "new-vm"    // of a template or a version: create VMs from it
	ActDeprecate Action = "deprecate" // of a version: allow no new VMs from it
	ActOffer     Action = "offer"     // of a deprecated version: allow new VMs again
)

var imageActions = ActionTable[ImageView]{
	{ActVersion, func(v ImageView) string { return v.templateDiskRefusal("which gets new versions from a VM") }},
	{ActCopy, func(v ImageView) string {
		newest := v.Newest()
		switch {
		case newest == nil:
			return "The image has no version yet."
		case !newest.Usable:
			return "No copy of the newest version can be read now: " + newest.unreadableReason()
		}
		return ""
	}},
	{ActPublish, func(v ImageView) string { return v.templateDiskRefusal("which is published with all its disks") }},
	{ActEdit, func(v ImageView) string { return v.templateDiskRefusal("which gives the image its name") }},
	{ActDelete, func(v ImageView) string {
		if why := v.templateDiskRefusal("which is deleted with all its disks"); why != "" {
			return why
		}
		_, inProgress, overlays := v.countCopies()
		switch {
		case len(overlays) > 0:
			return fmt.Sprintf("%s backed by the image and would be broken: %s. Delete or flatten them first.", countPhrase(len(overlays), "One disk is", "disks are"), JoinFirstNames(overlays))
		case inProgress > 0:
			return "A task for a copy of the image is running. Wait until the task has ended."
		}
		return ""
	}},
}

// unreadableReason returns the reason why no copy of the version can be read.
func (v ImageVersion) unreadableReason() string {
	for _, c := range v.Copies {
		if c.Why != "" {
			return c.Why
		}
	}
	return "the version has no copy."
}

// Allows reports whether the image allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (v ImageView) Allows(a Action) (bool, string) { return imageActions.Allows(v, a) }
func (v ImageView) Actions() []ActionState         { return imageActions.States(v) }

// copyWithSiblings is a copy of an image version. last is set if no other copy of the version is readable.
type copyWithSiblings struct {
	ImageCopy
	last bool
}

var copyActions = ActionTable[copyWithSiblings]{
	{ActVerify, func(c copyWithSiblings) string {
		switch {
		case c.Work != "":
			return "A task for the copy is running: " + strings.ToLower(c.Work) + "."
		case c.State == CopyMissing || c.State == CopyUnknown:
			return c.Why
		}
		return ""
	}},
	{ActForget, func(c copyWithSiblings) string {
		switch {
		case len(c.Overlays) > 0:
			return fmt.Sprintf("%s backed by the copy: %s.", countPhrase(len(c.Overlays), "One disk is", "disks are"), JoinFirstNames(c.Overlays))
		case c.Work != "":
			return "A task for the copy is running: " + strings.ToLower(c.Work) + "."
		}
		return ""
	}},
	{ActDelete, func(c copyWithSiblings) string {
		switch {
		case len(c.Overlays) > 0:
			return fmt.Sprintf("%s backed by the copy and would be broken: %s.", countPhrase(len(c.Overlays), "One disk is", "disks are"), JoinFirstNames(c.Overlays))
		case c.Work != "":
			return "A task for the copy is running: " + strings.ToLower(c.Work) + "."
		case c.State == CopyUnknown:
			return c.Why
		case c.last:
			return "This is the last copy of the version. Delete the image, or remove the copy from the library and keep the file."
		}
		return ""
	}},
}

// CopyAllows reports whether a copy of the version allows the action now; the string is the reason if not. CopyActions
// lists the state of every action.
func (v ImageVersion) CopyAllows(c ImageCopy, a Action) (bool, string) {
	return copyActions.Allows(v.withSiblings(c), a)
}

func (v ImageVersion) CopyActions(c ImageCopy) []ActionState {
	return copyActions.States(v.withSiblings(c))
}

func (v ImageVersion) withSiblings(c ImageCopy) copyWithSiblings {
	others := 0
	for _, o := range v.Copies {
		if o.Ref() == c.Ref() && o.HostID == c.HostID {
			continue
		}
		if o.Usable() {
			others++
		}
	}
	return copyWithSiblings{c, others == 0}
}

func countPhrase(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// JoinFirstNames joins at most five names and counts the rest.
func JoinFirstNames(names []string) string {
	if more := len(names) - 5; more > 0 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// CheckImageName adds an error at field if an image cannot have the name.
func CheckImageName(c *Checks, field, name string) {
	switch {
	case name == "":
		c.Add(field, "Enter a name: one line of at most 200 bytes.")
	case len(name) > 200 || name != strings.TrimSpace(name) || !IsPlainText(name):
		c.Add(field, "The name of the image must be one line of at most 200 bytes.")
	case strings.ContainsFunc(name, isInvisibleRune):
		c.Add(field, "The name contains %s", invisibleCharacters)
	}
}

// Check adds an error at field for each invalid value.
func (o OSFacts) Check(c *Checks, field string) {
	known := o.Family == ""
	for _, f := range OSFamilies {
		known = known || f == o.Family
	}
	if !known {
		c.Add(field+".family", "The family must be one of %s.", strings.Join(OSFamilies, ", "))
	}
	for _, part := range []struct{ name, text string }{{"name", o.Name}, {"version", o.Version}, {"arch", o.Arch}} {
		if len(part.text) > 64 || !IsPlainText(part.text) {
			c.Add(field+"."+part.name, "Enter one line of at most 64 bytes.")
		}
	}
}

// SubjectImage returns the subject of an image, which is also the key of its wake-ups.
func SubjectImage(id ImageID) Subject { return SubjectOf(TypeImage, id) }

// DefaultCopyName returns the default file name for a copy of an image version.
func DefaultCopyName(image string, number int, format string) string {
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

// MaxProjectImages is the maximum number of images of one project.
const MaxProjectImages = 50

// AllowsImage reports whether an image can be created from the VM's disk now; the string is the reason if not.
func (v VMView) AllowsImage(disk Volref) (bool, string) {
	ok, why := v.Allows(ActEdit)
	d := v.Spec.diskByVolume(disk)
	switch {
	case !ok:
		return false, why
	case v.whyUnreachable() != "":
		return false, v.whyUnreachable()
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.HasGuest() || v.RequestedPower != "" && v.RequestedPower != Stopped:
		return false, "The VM is running, so a copy of its disk would be inconsistent. Shut the VM down first."
	case v.MissingDiskFault(disk) != nil:
		return false, v.MissingDiskFault(disk).Text
	case v.disksDrifted():
		return false, "The VM's disks were changed on the host. Accept the drift or reapply first."
	case v.WhySnapshotsBlockDiskJobs() != "":
		return false, v.WhySnapshotsBlockDiskJobs()
	case d.Encryption != "":
		return false, "The disk is encrypted with a passphrase that only its host has, so it cannot be copied."
	case d.WhyRawNotCopied() != "":
		return false, "The disk " + d.WhyRawNotCopied()
	case d.Shareable:
		return false, "The disk is shared with other VMs, which may write to it. Remove the disk from all VMs, and copy the volume in its pool."
	}
	return true, ""
}
