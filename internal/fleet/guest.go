package fleet

import (
	"regexp"
	"time"
	"unicode/utf8"
)

// GuestAgentState is the state of the guest agent (qemu-guest-agent).
type GuestAgentState string

const (
	AgentNone          GuestAgentState = "none"    // the running guest has no channel for the guest agent
	AgentNotResponding GuestAgentState = "silent"  // the channel exists, but the agent does not answer
	AgentAnswers       GuestAgentState = "answers" // the agent answers
)

// GuestStatus is the stable subset of a guest agent's report. Guests are not trusted: texts are shortened, and
// non-printable characters are removed.
type GuestStatus struct {
	Agent    GuestAgentState `json:"agent"`
	Version  string          `json:"version,omitempty"` // version of the guest agent
	OS       string          `json:"os,omitempty"`      // "Debian GNU/Linux 12 (bookworm)"
	Kernel   string          `json:"kernel,omitempty"`  // kernel release
	Hostname string          `json:"hostname,omitempty"`
	Frozen   bool            `json:"frozen,omitempty"` // the file systems are frozen: writes wait until a thaw
}

// Bounds of a guest agent's report.
const (
	MaxGuestFileSystems = 64
	MaxGuestUsers       = 64
	MaxGuestText        = 255 // bytes of a name
)

// GuestReading holds the values of a guest agent's report that change all the time. Hosts send it with the load
// samples, and the portal does not store it as status.
type GuestReading struct {
	ID          VMID              `json:"id"`
	AgoMs       int64             `json:"agoMs"` // time since the guest agent answered, at the moment of sending
	FileSystems []GuestFileSystem `json:"fileSystems,omitempty"`
	Users       []GuestUser       `json:"users,omitempty"` // signed-in users
	ClockMs     int64             `json:"clockMs"`         // difference between the guest's and the host's clock
	ClockBehind bool              `json:"clockBehind,omitempty"`
}

// GuestFileSystem is a mounted file system of a guest.
type GuestFileSystem struct {
	Path       string `json:"path"`
	Type       string `json:"type"`
	UsedBytes  int64  `json:"usedBytes"`
	TotalBytes int64  `json:"totalBytes"` // 0: the guest agent does not report it
}

// GuestUser is a user who is signed in to a guest.
type GuestUser struct {
	Name   string `json:"name"`
	Domain string `json:"domain,omitempty"` // Windows only
}

// GuestView is a GuestReading with the time of the guest agent's answer.
type GuestView struct {
	At *time.Time `json:"at"` // time of the guest agent's answer; nil: none yet
	GuestReading
}

// GuestParams holds the parameters of a guest agent job. Passwords and program arguments are not part of it: see
// wire.GuestSecret.
type GuestParams struct {
	// Seconds is the time after which the host thaws the guest (vm.freeze), or the maximum wait for the program
	// (vm.exec).
	Seconds int    `json:"seconds,omitempty"`
	User    string `json:"user,omitempty"`    // vm.password
	Program string `json:"program,omitempty"` // vm.exec: the program, without its arguments
}

// Bounds of guest agent jobs.
const (
	MinFreeze        = 1 // seconds
	MaxFreeze        = 600
	DefaultFreeze    = 60
	MaxGuestPassword = 128 // bytes of a password
)

// guestUserForm matches user names of Linux and Windows. None of them looks like a command-line option.
var guestUserForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}\$?$`)

// CheckFreezeDuration adds an error at field if the duration is out of bounds.
func CheckFreezeDuration(c *Checks, field string, seconds int) {
	if seconds < MinFreeze || seconds > MaxFreeze {
		c.Add(field, "Freeze for %d to %d seconds.", MinFreeze, MaxFreeze)
	}
}

// CheckGuestUser adds an error at field if name is not a valid user name in a guest.
func CheckGuestUser(c *Checks, field, name string) {
	if !guestUserForm.MatchString(name) {
		c.Add(field, "The name of a user in the guest has 1–64 letters, digits and . _ -, and starts with a letter or _.")
	}
}

// CheckGuestPassword adds an error at field if the password is invalid. The error never contains the password.
func CheckGuestPassword(c *Checks, field, password string) {
	switch {
	case password == "":
		c.Add(field, "Enter a password.")
	case len(password) > MaxGuestPassword || !utf8.ValidString(password) || !IsPlainText(password):
		c.Add(field, "A password is one line of at most %d bytes.", MaxGuestPassword)
	}
}
