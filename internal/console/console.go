// Package console has the sessions of VMs' consoles. A session is one person's connection to the console of one VM. One
// person at a VM has the keyboard; the others only watch.
package console

import (
	"time"

	"quantix/internal/fleet"
)

// Kind is the protocol of a session.
type Kind string

// VNC is the screen, keyboard and mouse of a VM.
const VNC Kind = "vnc"

// Kept is how long ended sessions are kept.
const Kept = 30 * 24 * time.Hour

// LostAfter is the age of the portal's last report of an open session, after which the session counts as ended. The
// portal reports every 30 s.
const LostAfter = 90 * time.Second

// Session is a session of a console.
type Session struct {
	ID          fleet.PairID    `json:"id"`
	Kind        Kind            `json:"kind" doc:"vnc"`
	VMID        fleet.VMID      `json:"vmId"`
	VMName      string          `json:"vmName"`
	HostID      fleet.HostID    `json:"hostId,omitempty" doc:"The host of a VM that Quantix does not manage"`
	ProjectID   fleet.ProjectID `json:"projectId,omitempty"`
	ProjectName string          `json:"projectName,omitempty"`
	UserID      fleet.UserID    `json:"userId,omitempty"`
	UserName    string          `json:"userName"`
	Address     string          `json:"address,omitempty" doc:"The remote address; only for the session's user, and for users who may see hosts"`
	OpenedAt    time.Time       `json:"openedAt"`
	EndedAt     *time.Time      `json:"endedAt,omitempty" doc:"Absent: the session is open"`
	EndedBy     string          `json:"endedBy,omitempty" doc:"Who ended the session, if it was not its own user"`
	EndReason   string          `json:"endReason,omitempty"`
	Keyboard    bool            `json:"keyboard" doc:"The user has the keyboard and the mouse; other users at the VM only watch"`
	AskedAt     *time.Time      `json:"askedAt,omitempty" doc:"Since when the session's user asks for the keyboard"`
	SentBytes   int64           `json:"sentBytes" doc:"From the user to the VM"`
	ShownBytes  int64           `json:"shownBytes" doc:"From the VM to the user"`
}

// Open reports whether the session has not ended.
func (s *Session) Open() bool { return s.EndedAt == nil }

// State is what the portal that holds a session must know of it.
type State struct {
	Keyboard bool
	Ended    bool
	EndedBy  string
}

// SeePermission is the permission to see the sessions at a VM of the project. Empty: a VM that Quantix does not manage.
func SeePermission(project fleet.ProjectID) fleet.Permission {
	if project == "" {
		return fleet.MaySeeInfra
	}
	return fleet.MaySeeVMs
}

// ControlPermission is the permission to end other people's sessions at a VM of the project, and to take the keyboard
// from them. Empty: a VM that Quantix does not manage.
func ControlPermission(project fleet.ProjectID) fleet.Permission {
	if project == "" {
		return fleet.MayChangeInfra
	}
	return fleet.MayChangeVMs
}

// SessionKey is the wake-up key of changes of one session.
func SessionKey(id fleet.PairID) string { return "console:" + string(id) }
