package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/wire"
)

const waitTimeout = 15 * time.Second

// portal speaks the agent protocol over real mutual TLS and records all messages.
type portal struct {
	t     *testing.T
	srv   *httptest.Server
	caKey *ecdsa.PrivateKey
	ca    *x509.Certificate
	token string

	mu                  sync.Mutex
	changed             chan struct{} // closed and replaced with each change
	certificateLifetime time.Duration // lifetime of certificates
	refusals            map[string]int
	secret              string // secret of all pools
	session             int
	joined              wire.JoinRequest // the newest request
	hellos              []wire.Hello
	serials             []string // serial numbers of client certificates, by call
	queue               []wire.Work
	claims              int
	claimed             []wire.Work
	pools               []fleet.Pool
	networks            []fleet.Network
	ownershipMarks      map[fleet.VMID]string // ownership marks sent for VMs that lack them
	resend              bool
	lostJobs            []fleet.JobID
	stopsInProgress     map[fleet.JobID]string // reasons of cancellations, sent in answers to progress
	stopsInReports      map[fleet.JobID]string // reasons of cancellations, sent in answers to reports
	reportInterval      int                    // sent in answers to reports, seconds
	maintenance         bool                   // sent in answers to reports
	reports             []wire.Report
	health              []healthevent.Report
	finishes            []finish
	artifacts           map[fleet.JobID][]byte // archives by job
	noArtifacts         int                    // status of the refusal of archives; 0: accepted
	notes               []string               // progress notes
	beforeAck           func()                 // called once before an accepted result is acknowledged
	consoles            chan *websocket.Conn
	releaseManifest     []byte // the signature of all releases
	releaseProgram      string
	transferPeer        wire.TransferPeerState // the other host of all transfers
}

type finish struct {
	ID fleet.JobID
	wire.Finish
}

func newPortal(t *testing.T) *portal {
	t.Helper()
	p := &portal{t: t, changed: make(chan struct{}), certificateLifetime: 24 * time.Hour, refusals: map[string]int{}, artifacts: map[fleet.JobID][]byte{}, consoles: make(chan *websocket.Conn, 8)}
	p.caKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	p.ca = p.sign(tmpl, tmpl, &p.caKey.PublicKey)
	p.token = wire.NewJoinToken(p.ca.Raw)
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leaf := p.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, p.ca, &key.PublicKey)
	roots := x509.NewCertPool()
	roots.AddCert(p.ca)
	p.srv = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.srv.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, p.ca.Raw}, PrivateKey: key}},
	}
	p.srv.Config.ErrorLog = nil
	p.srv.StartTLS()
	t.Cleanup(p.srv.Close)
	return p
}

func (p *portal) sign(tmpl, parent *x509.Certificate, key any) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key, p.caKey)
	if err != nil {
		p.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	return cert
}

// certificate issues a certificate for a CSR.
func (p *portal) certificate(csr string) wire.Certificate {
	block, _ := pem.Decode([]byte(csr))
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || req.CheckSignature() != nil {
		p.t.Errorf("certificate request: %v", err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	now := time.Now()
	cert := p.sign(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "host-1"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: now.Truncate(time.Second), NotAfter: now.Add(p.certificateLifetime),
	}, p.ca, req.PublicKey)
	encode := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return wire.Certificate{Cert: encode(cert.Raw), CA: encode(p.ca.Raw)}
}

func (p *portal) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/agent/v1/")
	unlock := p.lockForChange()
	status := p.refusals[strings.SplitN(name, "/", 2)[0]]
	if len(r.TLS.PeerCertificates) > 0 {
		p.serials = append(p.serials, r.TLS.PeerCertificates[0].SerialNumber.String())
	}
	unlock()
	switch {
	case name != "join" && len(r.TLS.PeerCertificates) == 0:
		status = 401
	case name == "join" && r.Header.Get("Authorization") != "Bearer "+p.token:
		status = 401
	}
	if status != 0 {
		writeRefusal(w, status)
		return
	}
	if id, ok := strings.CutPrefix(name, "pair/"); ok {
		up := websocket.Upgrader{Subprotocols: []string{"binary"}}
		if ws, err := up.Upgrade(w, r, nil); err == nil {
			p.t.Logf("pair %s is open", id)
			p.consoles <- ws
		}
		return
	}
	if strings.HasPrefix(name, "releases/") && r.Method == http.MethodGet {
		defer p.lockForChange()()
		io.WriteString(w, p.releaseProgram)
		return
	}
	switch out := p.answer(r, name).(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case refusal:
		writeRefusal(w, int(out))
	default:
		json.NewEncoder(w).Encode(out)
	}
}

// refusal is the HTTP status of a refused request.
type refusal int

func writeRefusal(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"title": "refused", "detail": "The test refuses this."})
}

func read[T any](p *portal, r *http.Request) (in T) {
	// A request that a stopping agent has aborted is not a test failure.
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && r.Context().Err() == nil {
		p.t.Errorf("%s: %v", r.URL.Path, err)
	}
	return in
}

func (p *portal) answer(r *http.Request, name string) any {
	id, verb, isJob := strings.Cut(strings.TrimPrefix(name, "jobs/"), "/")
	switch {
	case name == "join":
		p.joined = read[wire.JoinRequest](p, r)
		return wire.JoinAnswer{HostID: "host-1", Name: "host-1", Certificate: p.certificate(p.joined.CSR)}
	case name == "renew":
		return p.certificate(read[wire.RenewRequest](p, r).CSR)
	case name == "hello":
		in := read[wire.Hello](p, r)
		defer p.lockForChange()()
		p.session++
		p.hellos = append(p.hellos, in)
		return wire.HelloAnswer{Session: strconv.Itoa(p.session), SeqBase: int64(p.session) << 32}
	case name == "claim":
		read[wire.ClaimRequest](p, r)
		io.Copy(io.Discard, r.Body) // a server notices a closed connection only after the body's end
		return p.claim(r.Context(), r.Header.Get(wire.SessionHeader))
	case name == "report":
		in := read[wire.Report](p, r)
		defer p.lockForChange()()
		p.reports = append(p.reports, in)
		out := wire.ReportAnswer{Resend: p.resend, AssignedObjects: wire.AssignedObjects{Pools: p.pools, Networks: p.networks}, Lost: p.lostJobs, Stop: p.stopsInReports, ReportInterval: p.reportInterval, Maintenance: p.maintenance}
		p.resend, p.lostJobs = false, nil
		if in.State != nil {
			out.Marks = map[fleet.VMID]string{}
			for _, vm := range in.State.VMs {
				if mark := p.ownershipMarks[vm.ID]; vm.Proof != wire.OwnershipProof(vm.ID, mark) {
					out.Marks[vm.ID] = mark
				}
			}
		}
		return out
	case strings.HasPrefix(name, "pools/"), isJob && verb == "secret":
		read[struct{}](p, r)
		defer p.lockForChange()()
		return wire.PoolSecret{Secret: p.secret}
	case strings.HasPrefix(name, "releases/"):
		read[struct{}](p, r)
		defer p.lockForChange()()
		return wire.ReleaseManifest{Manifest: p.releaseManifest}
	case strings.HasPrefix(name, "transfers/"):
		read[wire.TransferState](p, r)
		defer p.lockForChange()()
		return p.transferPeer
	case isJob && verb == "artifact":
		archive, err := io.ReadAll(r.Body)
		defer p.lockForChange()()
		if p.noArtifacts != 0 {
			return refusal(p.noArtifacts)
		}
		if err == nil {
			p.artifacts[fleet.JobID(id)] = archive
		}
		return nil
	case isJob && verb == "progress":
		in := read[wire.Progress](p, r)
		defer p.lockForChange()()
		p.notes = append(p.notes, in.Note)
		if words := p.stopsInProgress[fleet.JobID(id)]; words != "" {
			return wire.ProgressAnswer{Stop: words}
		}
		return nil
	case isJob && verb == "finish":
		defer p.delayAck()
		return p.finish(fleet.JobID(id), read[wire.Finish](p, r))
	case name == "health":
		defer p.lockForChange()()
		p.health = append(p.health, read[healthevent.Report](p, r))
		return nil
	case name == "results":
		defer p.delayAck()
		var out wire.ResultsAnswer
		for _, in := range read[wire.Results](p, r).Results {
			var a wire.ResultAnswer
			if refused, ok := p.finish(in.Job, in.Finish).(refusal); ok {
				a.Status = int(refused)
			}
			out.Answers = append(out.Answers, a)
		}
		return out
	}
	p.t.Errorf("unexpected call of %s", name)
	return nil
}

// finish accepts or refuses the result of a job.
func (p *portal) finish(id fleet.JobID, in wire.Finish) any {
	defer p.lockForChange()()
	if in.Seq>>32 != int64(p.session) {
		return refusal(422)
	}
	for _, w := range slices.Backward(p.claimed) { // the newest claim's epoch is valid
		if w.ID == id && w.Epoch != in.Epoch {
			return refusal(409)
		} else if w.ID == id {
			break
		}
	}
	p.finishes = append(p.finishes, finish{id, in})
	return wire.FinishAnswer{}
}

func (p *portal) delayAck() {
	p.mu.Lock()
	slow := p.beforeAck
	p.beforeAck = nil
	p.mu.Unlock()
	if slow != nil {
		slow()
	}
}

// claim blocks until there is work. It returns without work when a newer claim arrives.
func (p *portal) claim(ctx context.Context, session string) any {
	unlock := p.lockForChange()
	p.claims++
	mine := p.claims
	unlock()
	for {
		p.mu.Lock()
		if mine != p.claims || session != strconv.Itoa(p.session) {
			p.mu.Unlock()
			return nil
		}
		jobs, moved := p.queue, p.changed
		p.queue = nil
		p.claimed = append(p.claimed, jobs...)
		p.mu.Unlock()
		if len(jobs) > 0 {
			return wire.Claim{Jobs: jobs}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}
