package fleet

import "time"

// Role is a set of rights. Admin, operator and viewer reach all projects; member and viewer also exist per project.
type Role string

const (
	RoleAdmin    Role = "admin"    // everything
	RoleOperator Role = "operator" // everything but users, join tokens and projects
	RoleViewer   Role = "viewer"   // sees
	RoleMember   Role = "member"   // in one project: makes and runs VMs
	RoleNone     Role = ""         // only what projects grant
)

// User is a person who signs in.
type User struct {
	ID         UserID             `json:"id"`
	Name       string             `json:"name"`
	Role       Role               `json:"role"`
	Projects   map[ProjectID]Role `json:"projects"`
	MustChange bool               `json:"mustChangePassword"`
	Disabled   bool               `json:"disabled"`
	CreatedAt  time.Time          `json:"createdAt"`
	LastSeenAt *time.Time         `json:"lastSeenAt,omitempty"`
}

// Project groups VMs and the people who may use them.
type Project struct {
	ID          ProjectID `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"createdAt"`
	VMs         int       `json:"vms"`

	// Of new VMs where none is chosen; empty: see VMDefaults.Or.
	DefaultPoolID    PoolID    `json:"defaultPoolId,omitempty"`
	DefaultNetworkID NetworkID `json:"defaultNetworkId,omitempty"`
}

// Token is an API bearer token. The secret is shown once; only its hash is stored.
type Token struct {
	ID         TokenID    `json:"id"`
	UserID     UserID     `json:"userId"`
	Name       string     `json:"name"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	Secret     string     `json:"secret,omitempty"` // only in the answer that makes it
}

// Actor is who asks. It is passed as the second argument to everything in control.
type Actor struct {
	UserID     UserID // a person
	HostID     HostID // or a host's agent
	System     bool   // or the portal itself
	Name       string // for the audit line
	Role       Role
	Projects   map[ProjectID]Role
	MustChange bool    // may do nothing but change the password
	Session    string  // hash of the session or id of the API token: what a console ticket is bound to
	Token      TokenID // the API token that the person shows; empty: a browser's session
	KeyHash    string  // of an agent: sha256 of the public key in its certificate, 32 bytes
	Address    string  // remote address, for the audit line and throttling
	Browser    string  // at a sign-in: the secret of a browser that has been here before, which throttling lets through
}

// SystemActor is the portal acting on its own: reconcilers and start-up.
var SystemActor = Actor{System: true, Name: "Quantix"}
