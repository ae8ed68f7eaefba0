package fleet

import "time"

// User is a person with an account.
type User struct {
	ID                 UserID             `json:"id"`
	Name               string             `json:"name"`
	Role               Role               `json:"role"`
	Projects           map[ProjectID]Role `json:"projects"`
	MustChangePassword bool               `json:"mustChangePassword"`
	Disabled           bool               `json:"disabled"`
	CreatedAt          time.Time          `json:"createdAt"`
	LastSeenAt         *time.Time         `json:"lastSeenAt,omitempty"`
}

// Project groups VMs and the users who may use them.
type Project struct {
	ID          ProjectID `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"createdAt"`
	VMs         int       `json:"vms"`

	// Defaults of new VMs; empty: see VMDefaults.WithFallbacks.
	DefaultPoolID    PoolID    `json:"defaultPoolId,omitempty"`
	DefaultNetworkID NetworkID `json:"defaultNetworkId,omitempty"`
	VMRules          VMRules   `json:"vmRules,omitzero"`
}

// VMRules are what a project sets for its VMs: see package flavor.
type VMRules struct {
	FlavorsOnly    bool              `json:"flavorsOnly,omitempty" doc:"Members can only choose sizes (vCPUs and memory) of the project's flavors"`
	NamePattern    string            `json:"namePattern,omitempty" doc:"Pattern of VM names that members must follow: * is any text, ? is one character"`
	Firmware       Firmware          `json:"firmware,omitempty" doc:"Firmware of new VMs for which none is chosen; empty: bios"`
	Approval       bool              `json:"approval,omitempty" doc:"New VMs of members need approval: a creation becomes a request"`
	ExpiryDays     int               `json:"expiryDays,omitempty" doc:"Days after which new VMs expire; 0: never"`
	ExpiryStops    bool              `json:"expiryStops,omitempty" doc:"Whether new VMs are shut down when they expire"`
	SecurityGroups []SecurityGroupID `json:"securityGroups,omitempty" doc:"Security groups of new NICs for which none is chosen"`
	Locked         []string          `json:"locked,omitempty" doc:"Values of the project that members cannot change: pool, network, firmware, expiry, securityGroups"`
}

// Token is an API bearer token. The secret is shown once; only its hash is stored.
type Token struct {
	ID         TokenID    `json:"id"`
	UserID     UserID     `json:"userId"`
	Name       string     `json:"name"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	Secret     string     `json:"secret,omitempty"` // only in the response that creates the token
}

// Actor is the originator of a request: a user, an agent or the portal. Methods of package control have it as their
// second argument.
type Actor struct {
	UserID             UserID // set for a user
	HostID             HostID // set for a host's agent
	System             bool   // set for the portal itself
	Name               string // name in the audit log
	Role               Role
	Projects           map[ProjectID]Role
	MustChangePassword bool      // the password must be changed before anything else
	Session            string    // hash of the browser session, or ID of the API token; console tickets are bound to it
	Token              TokenID   // API token of the request; empty: a browser session
	KeyHash            string    // for an agent: SHA-256 of the public key in its certificate, 32 bytes
	CertificateEnd     time.Time // for an agent: end of its certificate
	Address            string    // remote address, for the audit log and throttling
	Browser            string    // secret of a browser that has signed in before, so that its sign-in is not throttled; set only at sign-in
}

// SystemActor is the portal as the originator of its own requests, such as those of reconcilers and of start-up.
var SystemActor = Actor{System: true, Name: "Quantix"}
