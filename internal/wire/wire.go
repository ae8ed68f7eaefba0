// Package wire is the protocol between an agent and its portal: JSON over HTTP/1.1 and mutual TLS, always dialled by the agent.
// An agent needs one connection: see TurnsHeader.
//
// Every call but Join proves the host by its certificate, for the key that the host joined with last; every call but Join, Renew
// and Hello also by the live session, which belongs to that key.
//
// Every answer but 2xx is problem+json with a "detail" sentence. 401 means that the certificate is not accepted (join again),
// 409 on Hello that another agent holds the identity, 409 elsewhere that this agent's session is over (say hello again) or, on
// Progress and Finish, that the job's epoch is (drop the result), 422 that the message breaks a bound: see Fit.
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"quantix/internal/fleet"
)

// Paths below the portal's agent address. All are POST but those of pairs, which are websockets.
const (
	PathJoin   = "/agent/v1/join"   // JoinRequest → JoinAnswer; bearer: the join token
	PathRenew  = "/agent/v1/renew"  // RenewRequest → Certificate; mutual TLS from here on
	PathHello  = "/agent/v1/hello"  // Hello → HelloAnswer
	PathReport = "/agent/v1/report" // Report → ReportAnswer
	PathClaim  = "/agent/v1/claim"  // ClaimRequest → 200 Claim or 204 after ClaimWait
	PathJobs   = "/agent/v1/jobs/"  // + <id>/finish: Finish → FinishAnswer; + <id>/progress: Progress → 204, or 200 ProgressAnswer
	// PathJobs + <id>/secret: nothing → GuestSecret, for the host that works on the job, and as long as it does; older portals have none.
	PathResults = "/agent/v1/results" // Results → ResultsAnswer: some of PathJobs' finish at once; older portals have none
	PathPools   = "/agent/v1/pools/"  // + <id>/secret: nothing → PoolSecret, for a host that is to have the pool; older portals have none
	// PathTransfers + <id>/meet: Meet → MeetAnswer, where both hosts of a transfer hear of each other; older portals have none.
	PathTransfers = "/agent/v1/transfers/"

	// PathFirstBoots + <VM id>: FirstBootRequest → FirstBoot, for the VM's own host; older portals have none.
	PathFirstBoots = "/agent/v1/first-boots/"

	PathPair    = "/agent/v1/pair/"    // + <pair id>: websocket, subprotocol "binary"; header SessionHeader as on every call
	PathConsole = "/agent/v1/console/" // PathPair as agents before it know it
)

// SessionHeader carries the session from HelloAnswer on every call after Hello.
const SessionHeader = "Quantix-Session"

// TurnsHeader stands on claims of agents that use one connection in turn. The portal answers 102 once such a claim is parked, which says:
// the agent may send its next request behind it, and the claim then ends at once with 204, or with the work that it is just getting.
// Portals before it answer no 102.
const TurnsHeader = "Quantix-Turns"

// ClaimWait is how long a claim is parked when there is nothing to do.
const ClaimWait = 25 * time.Second

// ReportPeriod is how often an agent reports when nothing changed.
const ReportPeriod = 10 * time.Second

// JoinRequest asks for the first certificate. The join token is the bearer.
type JoinRequest struct {
	Name     string       `json:"name"`             // a new host's name in Quantix; one that joins again keeps its own
	HostUUID string       `json:"hostUuid"`         // of the machine
	HostID   fleet.HostID `json:"hostId,omitempty"` // of the host that this agent was before, if any
	CSR      string       `json:"csr"`              // PEM; the key never leaves the host
}

// JoinAnswer is the host's identity and the authority to pin.
type JoinAnswer struct {
	HostID fleet.HostID `json:"hostId"`
	Name   string       `json:"name"`
	Certificate
}

// RenewRequest asks for the next certificate for the same host. The one that it is asked with may have lapsed: see
// auth.LapsedHostOf.
type RenewRequest struct {
	CSR string `json:"csr"` // PEM
}

// Certificate is a client certificate of 24 h and the authority's certificate, PEM.
type Certificate struct {
	Cert string `json:"cert"`
	CA   string `json:"ca"`
}

// Hello opens a session: one agent a host at a time.
type Hello struct {
	Instance    string `json:"instance"`    // random, new at each start of the agent
	Fingerprint string `json:"fingerprint"` // hash of boot id and of the identity file's device and inode: same only for a restart on the same machine
	Version     string `json:"version"`
}

// HelloAnswer is the session. Seq numbers of its reports and results are above SeqBase, by less than 1<<32; no others are taken.
type HelloAnswer struct {
	Session string    `json:"session"`
	SeqBase int64     `json:"seqBase"`
	At      time.Time `json:"at"` // the portal's time: see Stamp
}

// Stamp is the newest moment that the portal has told, and how long before sending it was heard, in milliseconds of the agent's
// monotonic clock. It says when a report was sent, however long that was under way: what was held up somewhere is no news.
type Stamp struct {
	At    time.Time `json:"at"`
	AgoMs int64     `json:"agoMs"`
}

// NeverLooked is the age of a look that has not yet succeeded: too old for anything.
const NeverLooked = 1000 * time.Hour

// Report is all that a host knows. Full reports carry State; heartbeats, in which nothing changed, only Digest.
type Report struct {
	Seq     int64                `json:"seq"`
	Digest  string               `json:"digest"` // hash of State; of the newest full report in a heartbeat
	State   *State               `json:"state,omitempty"`
	Leases  []Lease              `json:"leases,omitempty"` // the jobs this agent is working on: renews them
	Meters  []Meter              `json:"meters,omitempty"` // one a running VM
	Load    *HostMeter           `json:"load,omitempty"`
	Guests  []fleet.GuestReading `json:"guests,omitempty"`  // of those that were asked since the last report
	Filters *fleet.FilterCounts  `json:"filters,omitempty"` // what passes the cards of running VMs; nil: the host looks at none
	// LookedAgoMs is how long before sending this the newest look at the hypervisor that succeeded was begun, in milliseconds of
	// the agent's monotonic clock: what the host says about VMs, pools and networks is that old.
	LookedAgoMs int64  `json:"lookedAgoMs,omitempty"`
	Stamp       *Stamp `json:"stamp,omitempty"` // set by Client
}

// MaxGuests is of how many guests a report tells what they said; the others follow with the next.
const MaxGuests = 64

// State is the host's full state. What is not in it is not on the host.
type State struct {
	Host       fleet.HostStatus     `json:"host"`
	VMs        []VMReport           `json:"vms"`
	Discovered []fleet.DiscoveredVM `json:"found"`
	Pools      []PoolReport         `json:"pools"`
	Networks   []NetworkReport      `json:"networks"`
	Groups     []GroupReport        `json:"groups,omitempty"` // security groups that somebody changed on the host
}

// VMReport is a domain stamped with Quantix metadata. Generation is what the agent has acted on.
type VMReport struct {
	ID         fleet.VMID     `json:"id"`
	Name       string         `json:"name"`
	Generation int64          `json:"generation"`
	Status     fleet.VMStatus `json:"status"`
	Proof      string         `json:"proof,omitempty"` // Proof of the mark in its metadata: the running guest's, else the definition's; empty: it has none
	// Stamped is the generation of the spec in the definition, and SpecHash is its Work.SpecHash. If the portal has not
	// reached this generation, or has another hash for it, its database was restored from a backup.
	Stamped  int64  `json:"stamped,omitempty"`
	SpecHash string `json:"specHash,omitempty"`
}

// Proof is what an agent shows of a VM's mark, the secret that goes with the domain wherever it goes. The SQL function vm_proof is
// the same; a test holds the two together.
func Proof(id fleet.VMID, mark string) string {
	if mark == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(string(id) + " " + mark))
	return hex.EncodeToString(sum[:])
}

// PoolReport is a libvirt pool. Agents that know no ids tell its name alone.
type PoolReport struct {
	ID     fleet.PoolID     `json:"id,omitempty"`
	Name   string           `json:"name"`
	Status fleet.PoolStatus `json:"status"`
}

// GroupReport is a security group that is not on the host as it was left there.
type GroupReport struct {
	ID      fleet.SecurityGroupID `json:"id"`
	Changed string                `json:"changed"` // in words
}

// NetworkReport is a libvirt network or a bridge device.
type NetworkReport struct {
	ID     fleet.NetworkID     `json:"id,omitempty"` // the UUID of a libvirt network: whose it is. Older agents tell none
	Name   string              `json:"name"`
	Kind   fleet.NetworkKind   `json:"kind"`
	Status fleet.NetworkStatus `json:"status"`
	Absent bool                `json:"absent,omitempty"` // the host has none: it is told because it is assigned. Older agents do not say so
}

// Meter and HostMeter are the load of one running VM and of the host itself.
type (
	Meter     = fleet.Meter
	HostMeter = fleet.HostMeter
)

// ReportAnswer says what the portal wants next.
type ReportAnswer struct {
	Resend   bool            `json:"resend,omitempty"`   // the digest is not what the portal holds: send State
	Pools    []fleet.Pool    `json:"pools"`              // the pools assigned to this host: report these, with volumes
	Networks []fleet.Network `json:"networks,omitempty"` // those assigned to this host, as they are defined
	Lost     []fleet.JobID   `json:"lost,omitempty"`     // leases that are no longer this agent's: drop the results
	At       time.Time       `json:"at"`                 // the portal's time: see Stamp
	// Stop are the jobs of the report's leases that people took back, each with the words of Work.Stop.
	Stop map[fleet.JobID]string `json:"stop,omitempty"`
	// Marks are those of VMs of this host that the report showed without their own: write them into the domains' metadata.
	Marks map[fleet.VMID]string `json:"marks,omitempty"`
}

// Lease names a job in work and the epoch of its claim.
type Lease struct {
	ID    fleet.JobID `json:"id"`
	Epoch int64       `json:"epoch"`
}

// ClaimRequest asks for work. Busy subjects are not given again.
type ClaimRequest struct {
	Max int `json:"max"` // how many jobs at most, 1…32
}

// Claim is work: at most one job a subject.
type Claim struct {
	Jobs []Work `json:"jobs"`
}

// Work is one claimed job with the newest truth about its subject.
type Work struct {
	ID         fleet.JobID    `json:"id"`
	Kind       fleet.JobKind  `json:"kind"`
	Subject    fleet.Subject  `json:"subject"`
	Epoch      int64          `json:"epoch"`
	Attempt    int            `json:"attempt"`
	Generation int64          `json:"generation"` // of the subject as sent
	Args       fleet.JobArgs  `json:"args"`
	VM         *fleet.VM      `json:"vm,omitempty"`      // vm.* and console.open
	Pools      []fleet.Pool   `json:"pools,omitempty"`   // every pool that the VM's spec names; of volume.copy, the one that it reads from where that is another
	Pool       *fleet.Pool    `json:"pool,omitempty"`    // pool.*; of volume.*, the volume's
	Network    *fleet.Network `json:"network,omitempty"` // network.*
	// Held is who needed the volume when the work was given: of volume.*.
	Held *fleet.VolumeInUse `json:"held,omitempty"`
	// Made are the disks of the VM that were seen whole at some time. A disk is made once: one of these that is not there is a
	// fault, never made anew.
	Made []fleet.Volref `json:"made,omitempty"`
	Mark string         `json:"mark,omitempty"` // the VM's: see Proof
	// SpecHash is of the VM's name and spec: the same for each claim of one generation. The definition keeps it.
	SpecHash string `json:"specHash,omitempty"`
	Stop     string `json:"stop,omitempty"`    // people took it back while a host had it: end it, and leave all as it was. The words say who
	Project  string `json:"project,omitempty"` // the name of the VM's project: part of the domain's name where the VM's alone is taken

	SecurityGroup  *fleet.FlatGroup  `json:"securityGroup,omitempty"`  // secgroup.*
	SecurityGroups []fleet.FlatGroup `json:"securityGroups,omitempty"` // every one that a card of the VM is in
}

// Progress tells how far a job is; it also renews its lease.
type Progress struct {
	Epoch   int64  `json:"epoch"`
	Percent int    `json:"percent"`
	Note    string `json:"note"`
}

// ProgressAnswer is empty mostly, and then left out.
type ProgressAnswer struct {
	Stop string `json:"stop,omitempty"` // as Work.Stop
}

// Outcome of a job.
type Outcome string

const (
	Done    Outcome = "done"
	Failed  Outcome = "failed"  // Error has the hypervisor's own words
	Unknown Outcome = "unknown" // single-shot work that may or may not have happened

	Cancelled Outcome = "cancelled" // as Work.Stop wanted it
	// Outdated: nothing was done, because the agent has seen a higher epoch for the job's subject in this session, as happens
	// after the portal's database was restored. Newest is that epoch. The portal gives out the job again with a higher one.
	Outdated Outcome = "outdated"
)

// Finish is a job's result together with what the host then saw.
type Finish struct {
	Epoch      int64                `json:"epoch"`
	Newest     int64                `json:"newest,omitempty"` // the highest epoch that the agent has seen for the subject (outdated)
	Generation int64                `json:"generation"`       // of the subject that was acted on
	Seq        int64                `json:"seq"`              // a number from the same sequence as reports
	Outcome    Outcome              `json:"outcome"`
	Error      string               `json:"error,omitempty"`
	Retry      bool                 `json:"retry,omitempty"`   // failed, convergent, and only because the hypervisor was not reached or did not answer: worth another try
	VM         *fleet.VMStatus      `json:"vm,omitempty"`      // status after the act (vm.*)
	Pool       *fleet.PoolStatus    `json:"pool,omitempty"`    // likewise (pool.*, volume.*)
	Network    *fleet.NetworkStatus `json:"network,omitempty"` // likewise (network.*)

	SecurityGroup *fleet.SecurityGroupStatus `json:"securityGroup,omitempty"` // likewise (secgroup.*)

	Drawing *fleet.Drawing     `json:"drawing,omitempty"` // what was asked for (vm.plan)
	Output  *fleet.GuestOutput `json:"output,omitempty"`  // how the program ended (vm.exec)
}

// FinishAnswer says what became of the result.
type FinishAnswer struct {
	Again bool `json:"again"` // the subject has moved on, and a new job is queued
}

// MaxResults is how many Results a call may hold.
const MaxResults = 32

// Results are what ended while the agent was handing in what had ended before. Each is taken or refused by itself.
type Results struct {
	Results []Result `json:"results"`
}

// Result is one job's.
type Result struct {
	Job fleet.JobID `json:"job"`
	Finish
}

// ResultsAnswer is one ResultAnswer for each result, in their order. Where all of them are refused, the first one's refusal is the answer.
type ResultsAnswer struct {
	Answers []ResultAnswer `json:"answers"`
}

// ResultAnswer says what became of one result.
type ResultAnswer struct {
	FinishAnswer
	Status int    `json:"status,omitempty"` // of HTTP, with which it was refused; 0: it was taken
	Detail string `json:"detail,omitempty"` // a sentence for people
}

// GuestSecret is what a job of a VM bears to its guest alone: the password of vm.password, the program and arguments of vm.exec as JSON (fleet.GuestProgram).
type GuestSecret struct {
	Secret string `json:"secret"`
}

// PoolSecret is what proves to a pool's storage who asks. It goes nowhere but into the hypervisor.
type PoolSecret struct {
	Secret string `json:"secret"`
}

// FirstBootRequest asks for what a VM's guest reads when it first starts.
type FirstBootRequest struct {
	FirstBoot fleet.VMFirstBoot `json:"firstBoot"` // as the VM's spec has it
}

// FirstBoot are the files of it, by name. They may hold secrets: they go nowhere but onto the disc that the guest reads.
type FirstBoot struct {
	Files map[string][]byte `json:"files"`
}
