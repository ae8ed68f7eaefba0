// Package wire is the protocol between an agent and its portal: JSON over HTTP/1.1 with mutual TLS. The agent always
// opens the connections. One connection is enough: see SharedConnHeader.
//
// In every call except Join, the host proves its identity by the certificate for the key of its last join. Every call
// except Join, Renew and Hello also sends the agent's current session, which is bound to that key.
//
// Every answer other than 2xx is problem+json with a "detail" sentence. 401: the certificate is not accepted (join
// again). 409 on Hello: another agent uses the identity. 409 on Progress and Finish: the job's epoch is outdated
// (discard the result). 409 on other calls: the agent's session has ended (call Hello again). 422: the message violates
// a bound, see Fit.
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/secgroup"
)

// Paths below the portal's agent address. All are POST, except relays, which are websockets.
const (
	PathJoin   = "/agent/v1/join"   // JoinRequest → JoinAnswer; bearer: the join token
	PathRenew  = "/agent/v1/renew"  // RenewRequest → Certificate; mutual TLS from here on
	PathHello  = "/agent/v1/hello"  // Hello → HelloAnswer
	PathReport = "/agent/v1/report" // Report → ReportAnswer
	PathClaim  = "/agent/v1/claim"  // ClaimRequest → 200 Claim or 204 after ClaimWait
	PathHealth = "/agent/v1/health" // healthevent.Report → 204. Older portals lack it.
	// PathJobs + <id>/finish: Finish → FinishAnswer
	// PathJobs + <id>/progress: Progress → 204, or 200 ProgressAnswer
	// PathJobs + <id>/secret: {} → GuestSecret, only for the host that runs the job; older portals have no such path
	PathJobs    = "/agent/v1/jobs/"
	PathResults = "/agent/v1/results" // Results → ResultsAnswer: several job results at once. Older portals lack it.
	// PathPools + <id>/secret: {} → PoolSecret, for a host with the pool assigned. Older portals lack it.
	PathPools = "/agent/v1/pools/"
	// PathTransfers + <id>/meet: TransferState → TransferPeerState: the two hosts of a transfer exchange tickets. Older
	// portals lack it.
	PathTransfers = "/agent/v1/transfers/"

	// PathFirstBoots + <VM id>: FirstBootRequest → FirstBoot, for the VM's own host. Older portals lack it.
	PathFirstBoots = "/agent/v1/first-boots/"

	PathRelay   = "/agent/v1/pair/"    // + <relay id>: websocket, subprotocol "binary"; header SessionHeader
	PathConsole = "/agent/v1/console/" // PathRelay for older agents
)

// SessionHeader carries the session from HelloAnswer in every call after Hello.
const SessionHeader = "Quantix-Session"

// SharedConnHeader is set on claims of agents that use one connection for claims and calls. Once the portal holds such
// a claim until a job arrives, it answers 102. The agent may then send its next request behind the claim, which ends
// the claim at once: with 204, or with jobs if the portal was just assigning some. Older portals send no 102.
const SharedConnHeader = "Quantix-Turns"

// ClaimWait is how long the portal holds a claim before it answers without jobs.
const ClaimWait = 25 * time.Second

// ReportPeriod is the default interval of reports while nothing changes.
const ReportPeriod = fleet.DefaultReportInterval * time.Second

// JoinRequest requests the first certificate. The join token is the bearer token.
type JoinRequest struct {
	Name     string       `json:"name"`             // name of a new host; a host that joins again keeps its name
	HostUUID string       `json:"hostUuid"`         // the machine's UUID
	HostID   fleet.HostID `json:"hostId,omitempty"` // the agent's previous host, if any
	CSR      string       `json:"csr"`              // PEM; the key never leaves the host
}

// JoinAnswer is the host's identity and the authority to pin.
type JoinAnswer struct {
	HostID fleet.HostID `json:"hostId"`
	Name   string       `json:"name"`
	Certificate
}

// RenewRequest requests the next certificate of the same host. The current one may have expired: see
// auth.HostOfRenewableCert.
type RenewRequest struct {
	CSR string `json:"csr"` // PEM
}

// Certificate is a client certificate valid for 24 h and the authority's certificate, both PEM.
type Certificate struct {
	Cert string `json:"cert"`
	CA   string `json:"ca"`
}

// Hello opens a session. A host has at most one session at a time.
type Hello struct {
	Instance string `json:"instance"` // random, new at each start of the agent
	// Fingerprint is a hash of the boot ID and of the identity file's device and inode. A restart of the agent alone
	// does not change it.
	Fingerprint string `json:"fingerprint"`
	Version     string `json:"version"`
}

// HelloAnswer is the new session. The Seq numbers of its reports and results must be above SeqBase and below SeqBase
// + 1<<32.
type HelloAnswer struct {
	Session string    `json:"session"`
	SeqBase int64     `json:"seqBase"`
	At      time.Time `json:"at"` // the portal's time: see Stamp
}

// Stamp is the newest time that the agent received from the portal, and the milliseconds from then until sending, by
// the agent's monotonic clock. The portal computes from it when a report was sent, so that a delayed report does not
// count as fresh.
type Stamp struct {
	At    time.Time `json:"at"`
	AgoMs int64     `json:"agoMs"`
}

// NeverRead is the reported age of a state that the agent has never read: it exceeds every freshness limit.
const NeverRead = 1000 * time.Hour

// Report is a host's state. Full reports contain State; heartbeats, which report no change, contain only Digest.
type Report struct {
	Seq    int64      `json:"seq"`
	Digest string     `json:"digest"` // hash of State; a heartbeat repeats the hash of the last full report
	State  *State     `json:"state,omitempty"`
	Leases []Lease    `json:"leases,omitempty"` // this agent's running jobs, whose leases the report renews
	Meters []Meter    `json:"meters,omitempty"` // one for each running VM
	Load   *HostMeter `json:"load,omitempty"`
	// Samples are the values of metrics. Agents older than metrics do not send them.
	Samples *metric.Samples      `json:"samples,omitempty"`
	Guests  []fleet.GuestReading `json:"guests,omitempty"` // guests queried since the last report
	// Filters holds the packet counts of running VMs' NICs; nil: the host does not support packet filters.
	Filters *secgroup.FilterCounts `json:"filters,omitempty"`
	// StateAgeMs is the age of the VMs, pools and networks in State when the report is sent, in milliseconds by the
	// agent's monotonic clock. The agent counts from the start of its last successful read of the hypervisor.
	StateAgeMs int64  `json:"lookedAgoMs,omitempty"`
	Stamp      *Stamp `json:"stamp,omitempty"` // set by Client
}

// MaxGuests is the maximum number of guest readings in a report. Further readings are sent in the next report.
const MaxGuests = 64

// State is the host's full state. An object that is missing in it does not exist on the host.
type State struct {
	Host       fleet.HostStatus     `json:"host"`
	VMs        []VMReport           `json:"vms"`
	Discovered []fleet.DiscoveredVM `json:"found"`
	Pools      []PoolReport         `json:"pools"`
	Networks   []NetworkReport      `json:"networks"`
	// Groups are security groups that were changed on the host outside Quantix.
	Groups []GroupReport `json:"groups,omitempty"`
}

// VMReport is a domain with Quantix metadata. Generation is the newest generation that the agent has acted on.
type VMReport struct {
	ID         fleet.VMID     `json:"id"`
	Name       string         `json:"name"`
	Generation int64          `json:"generation"`
	Status     fleet.VMStatus `json:"status"`
	// Proof proves that the agent knows the VM's ownership mark. The agent reads the mark from the metadata of the running
	// guest, or else of the definition. Empty: no mark.
	Proof string `json:"proof,omitempty"`
	// Stamped is the spec generation in the metadata of the VM's libvirt definition, and SpecHash is the Work.SpecHash
	// stored with this generation. If Stamped is above the portal's generation, or the hashes of one generation differ,
	// the portal's database was restored from a backup.
	Stamped  int64  `json:"stamped,omitempty"`
	SpecHash string `json:"specHash,omitempty"`
}

// OwnershipProof returns the proof that an agent knows a VM's ownership mark, a secret in the domain's metadata that a
// migration preserves. The SQL function vm_proof computes the same value; a test compares the two.
func OwnershipProof(id fleet.VMID, mark string) string {
	if mark == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(string(id) + " " + mark))
	return hex.EncodeToString(sum[:])
}

// PoolReport is a libvirt pool. Older agents report only its name.
type PoolReport struct {
	ID     fleet.PoolID     `json:"id,omitempty"`
	Name   string           `json:"name"`
	Status fleet.PoolStatus `json:"status"`
}

// GroupReport is a security group that was changed on the host outside Quantix.
type GroupReport struct {
	ID      fleet.SecurityGroupID `json:"id"`
	Changed string                `json:"changed"` // the difference, as text for people
}

// NetworkReport is a libvirt network or a bridge device.
type NetworkReport struct {
	ID     fleet.NetworkID     `json:"id,omitempty"` // the UUID of a libvirt network. Older agents send none
	Name   string              `json:"name"`
	Kind   fleet.NetworkKind   `json:"kind"`
	Status fleet.NetworkStatus `json:"status"`
	// Absent means that the assigned network does not exist on the host. Older agents never set it.
	Absent bool `json:"absent,omitempty"`
}

// Meter and HostMeter are the load of one running VM and of the host.
type (
	Meter     = fleet.Meter
	HostMeter = fleet.HostMeter
)

// ReportAnswer is the portal's answer to a report.
type ReportAnswer struct {
	Resend bool `json:"resend,omitempty"` // the digest differs from the portal's: send a full report
	AssignedObjects
	Lost []fleet.JobID `json:"lost,omitempty"` // jobs whose lease this agent has lost: discard their results
	At   time.Time     `json:"at"`             // the portal's time: see Stamp
	// ReportInterval is the interval of reports in seconds that the portal wants; 0: the default, also from older portals.
	// An interval in agent.yaml wins.
	ReportInterval int `json:"reportInterval,omitempty"`
	// Maintenance: the host is entering or in maintenance. No VM starts with the host's boot until it has left maintenance.
	Maintenance bool `json:"maintenance,omitempty"`
	// Stop lists the cancelled jobs among the report's leases, each with the text of Work.Stop.
	Stop map[fleet.JobID]string `json:"stop,omitempty"`
	// Marks are ownership marks that VMs of this host lack. The agent writes the marks into the domains' metadata.
	Marks map[fleet.VMID]string `json:"marks,omitempty"`
}

// Lease names a running job and the epoch of the agent's claim.
type Lease struct {
	ID    fleet.JobID `json:"id"`
	Epoch int64       `json:"epoch"`
}

// ClaimRequest requests jobs.
type ClaimRequest struct {
	Max int `json:"max"` // largest number of jobs, 1…32
}

// Claim is the assigned work: at most one job for each subject.
type Claim struct {
	Jobs []Work `json:"jobs"`
}

// Work is one claimed job with the current spec of its subject.
type Work struct {
	ID         fleet.JobID   `json:"id"`
	Kind       fleet.JobKind `json:"kind"`
	Subject    fleet.Subject `json:"subject"`
	Epoch      int64         `json:"epoch"`
	Attempt    int           `json:"attempt"`
	Generation int64         `json:"generation"` // the subject's generation in this message
	Args       fleet.JobArgs `json:"args"`
	VM         *fleet.VM     `json:"vm,omitempty"` // vm.* and console.open
	// Pools are all pools that the VM's spec names. For volume.copy, it is the source pool if that pool differs.
	Pools   []fleet.Pool   `json:"pools,omitempty"`
	Pool    *fleet.Pool    `json:"pool,omitempty"`    // for pool.*; for volume.*, the pool of the volume
	Network *fleet.Network `json:"network,omitempty"` // network.*
	// VolumeUsers lists the users of the volume at the time of the claim, for volume.*.
	VolumeUsers *fleet.VolumeUsers `json:"held,omitempty"`
	// CreatedDisks are the VM's disks whose content was complete once. A disk is created only once: if one of these disks
	// is missing, the agent reports a fault and does not create the disk again.
	CreatedDisks []fleet.Volref `json:"made,omitempty"`
	Mark         string         `json:"mark,omitempty"` // the VM's ownership mark: see Proof
	// SpecHash is the hash of the VM's name and spec, equal for each claim of one generation. The agent stores it in
	// the definition.
	SpecHash string `json:"specHash,omitempty"`
	// Adopted is set for a VM that was adopted: the agent marks a domain with the VM's UUID that has no metadata of
	// Quantix as the VM's, and creates no domain in place of a missing one.
	Adopted bool `json:"adopted,omitempty"`
	// Stop is set if a user cancelled the job while a host ran it: end the job and change nothing. The text names the
	// user.
	Stop string `json:"stop,omitempty"`
	// Project is the name of the VM's project. The domain's name includes it if another domain on the host has the VM's
	// name.
	Project string `json:"project,omitempty"`

	SecurityGroup  *secgroup.FlatGroup  `json:"securityGroup,omitempty"`  // secgroup.*
	SecurityGroups []secgroup.FlatGroup `json:"securityGroups,omitempty"` // every security group of the VM's NICs
}

// SubjectGeneration returns the generation of the job's subject in this message. A volume has no generation of its own,
// so its job keeps Generation.
func (w Work) SubjectGeneration() int64 {
	switch {
	case w.VM != nil:
		return w.VM.Generation
	case w.Network != nil:
		return w.Network.Generation
	case w.Pool != nil && w.VolumeUsers == nil:
		return w.Pool.Generation
	}
	return w.Generation
}

// Progress reports a job's progress and renews its lease.
type Progress struct {
	Epoch   int64  `json:"epoch"`
	Percent int    `json:"percent"`
	Note    string `json:"note"`
}

// ProgressAnswer is the portal's answer to Progress. The portal omits it if it is empty.
type ProgressAnswer struct {
	Stop string `json:"stop,omitempty"` // as Work.Stop
}

// Outcome is the result of a job.
type Outcome string

const (
	Done    Outcome = "done"
	Failed  Outcome = "failed"  // Error has the hypervisor's error text
	Unknown Outcome = "unknown" // a single-shot job that may or may not have run

	Cancelled Outcome = "cancelled" // cancelled, as Work.Stop requested
	// Outdated means that the agent did not run the job, because it received a higher epoch for the job's subject in this
	// session. This happens after the portal's database was restored. Finish.Newest is the higher epoch. The portal queues
	// the job again with an epoch above Finish.Newest.
	Outdated Outcome = "outdated"
)

// Finish is a job's result, with the subject's status after the job.
type Finish struct {
	Epoch int64 `json:"epoch"`
	// Newest is, for Outdated, the highest epoch that the agent has received for the job's subject.
	Newest     int64   `json:"newest,omitempty"`
	Generation int64   `json:"generation"` // generation of the subject that the job acted on
	Seq        int64   `json:"seq"`        // a number from the same sequence as reports
	Outcome    Outcome `json:"outcome"`
	Error      string  `json:"error,omitempty"`
	// Retry means that the job, which can be repeated, failed only because the hypervisor did not answer: the portal
	// retries it.
	Retry   bool                 `json:"retry,omitempty"`
	VM      *fleet.VMStatus      `json:"vm,omitempty"`      // status after the job (vm.*)
	Pool    *fleet.PoolStatus    `json:"pool,omitempty"`    // status after the job (pool.*, volume.*)
	Network *fleet.NetworkStatus `json:"network,omitempty"` // status after the job (network.*)

	SecurityGroup *secgroup.Status `json:"securityGroup,omitempty"` // status after the job (secgroup.*)

	Drawing *fleet.DefinitionDiff `json:"drawing,omitempty"` // the plan (vm.plan)
	Output  *fleet.GuestOutput    `json:"output,omitempty"`  // the program's result (vm.exec)

	Adoptable *fleet.AdoptableVM `json:"adoptable,omitempty"` // the definition that was read (found.adopt)
}

// FinishAnswer is the portal's answer to a result.
type FinishAnswer struct {
	Requeued bool `json:"again"` // the subject has a newer generation, and a new job is queued
}

// MaxResults is the maximum number of results in one call.
const MaxResults = 32

// Results are the results of several jobs in one call. Each result is accepted or refused separately.
type Results struct {
	Results []Result `json:"results"`
}

// Result is the result of one job.
type Result struct {
	Job fleet.JobID `json:"job"`
	Finish
}

// ResultsAnswer has one ResultAnswer for each result, in the same order. If the portal refuses all results, the call
// fails with the first refusal.
type ResultsAnswer struct {
	Answers []ResultAnswer `json:"answers"`
}

// ResultAnswer is the portal's answer to one result.
type ResultAnswer struct {
	FinishAnswer
	Status int    `json:"status,omitempty"` // HTTP status of the refusal; 0: accepted
	Detail string `json:"detail,omitempty"` // a sentence for people
}

// GuestSecret is the secret of a job that the guest needs: the password of vm.password, or the program with arguments
// of vm.exec as JSON (fleet.GuestProgram).
type GuestSecret struct {
	Secret string `json:"secret"`
}

// PoolSecret is the secret that authenticates to a pool's storage. The agent passes it only to the hypervisor.
type PoolSecret struct {
	Secret string `json:"secret"`
}

// FirstBootRequest requests the first-boot files of a VM.
type FirstBootRequest struct {
	FirstBoot fleet.VMFirstBoot `json:"firstBoot"` // as in the VM's spec
}

// FirstBoot are the first-boot files by name. They may contain secrets, so the agent writes them only to the guest's
// seed image.
type FirstBoot struct {
	Files map[string][]byte `json:"files"`
}
