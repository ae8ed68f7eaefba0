package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"quantix/agent/state"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Files of an agent's data directory.
const (
	keyFile       = "host.key"
	identityFile  = "identity.json"
	lockFile      = "agent.lock"
	stateFileName = "memory.json"
	journalFile   = "journal.jsonl"
)

// ErrNotJoined is returned by OpenIdentity for a data directory without an identity.
var ErrNotJoined = errors.New("this host has not joined a portal yet: run the command that the portal shows under Hosts, Add host")

// Identity is the host's identity: its key, its certificate and the portal's CA. It holds the lock of the data
// directory.
type Identity struct {
	dir  string
	lock *os.File
	key  *ecdsa.PrivateKey

	mu    sync.Mutex
	saved savedIdentity
	cert  tls.Certificate
	ca    *x509.CertPool
}

// savedIdentity is the content of identity.json: a single file, so that all fields are replaced atomically.
type savedIdentity struct {
	Portal string       `json:"portal"`
	HostID fleet.HostID `json:"hostId"`
	wire.Certificate
}

// OpenIdentity locks the data directory and reads the identity in it. It refuses a second agent in the same directory.
func OpenIdentity(dir string) (*Identity, error) {
	id, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := id.readFiles(); err != nil {
		id.Close()
		return nil, err
	}
	return id, nil
}

func lockDir(dir string) (*Identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	// Between fork and exec, a child process has copies of all open file descriptors, so a lock that its parent has
	// released stays locked for a moment. The loop retries for 200 ms.
	for tries := 0; ; tries++ {
		if err = flock(f); err == nil || tries == 10 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("another agent uses the data directory %s: stop that agent first, or start this agent with another --data-dir", dir)
	}
	return &Identity{dir: dir, lock: f}, nil
}

func (id *Identity) readFiles() error {
	data, err := os.ReadFile(filepath.Join(id.dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotJoined
	}
	if err != nil {
		return err
	}
	var saved savedIdentity
	if err := json.Unmarshal(data, &saved); err != nil {
		return fmt.Errorf("read %s: %w", identityFile, err)
	}
	if err := id.readKey(); err != nil {
		return err
	}
	return id.setCertificate(saved)
}

func (id *Identity) readKey() error {
	data, err := os.ReadFile(filepath.Join(id.dir, keyFile))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return fmt.Errorf("%s contains no key: join the host again with an empty data directory", keyFile)
	}
	id.key, err = x509.ParseECPrivateKey(block.Bytes)
	return err
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// saveKey writes the key to disk.
func (id *Identity) saveKey() error {
	der, err := x509.MarshalECPrivateKey(id.key)
	if err != nil {
		return err
	}
	return state.WriteAtomic(filepath.Join(id.dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// csr returns a certificate request for the key as PEM. The portal decides on the certificate's content.
func (id *Identity) csr(name string) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, id.key)
	if err != nil {
		return "", fmt.Errorf("create a certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// replaceCertificate writes a new certificate to disk, then uses it.
func (id *Identity) replaceCertificate(saved savedIdentity) error {
	probe := &Identity{key: id.key}
	if err := probe.setCertificate(saved); err != nil {
		return err
	}
	data, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return err
	}
	if err := state.WriteAtomic(filepath.Join(id.dir, identityFile), data); err != nil {
		return fmt.Errorf("save the certificate: %w", err)
	}
	return id.setCertificate(saved)
}

func (id *Identity) setCertificate(saved savedIdentity) error {
	key, err := x509.MarshalECPrivateKey(id.key)
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair([]byte(saved.Cert), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}))
	if err != nil {
		return fmt.Errorf("read the host's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(saved.CA)) {
		return errors.New("the certificate of the portal's CA cannot be read")
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	id.saved, id.cert, id.ca = saved, cert, pool
	return nil
}

// HostID returns the host's ID in Quantix.
func (id *Identity) HostID() fleet.HostID {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.saved.HostID
}

// Portal returns the address of the portal that the host joined: "https://host:8444".
func (id *Identity) Portal() string {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.saved.Portal
}

// Client returns a client that presents the newest certificate. A non-empty portal overrides the address that the host
// joined.
func (id *Identity) Client(portal string) (*wire.Client, error) {
	if portal == "" {
		portal = id.Portal()
	}
	return wire.NewClient(portal, func() wire.Credentials {
		id.mu.Lock()
		defer id.mu.Unlock()
		return wire.Credentials{Certificate: id.cert, CA: id.ca}
	})
}

// transferCredentials returns the host's credentials for connections to other hosts.
func (id *Identity) transferCredentials() transfer.HostIdentity {
	id.mu.Lock()
	defer id.mu.Unlock()
	return transfer.HostIdentity{Certificate: id.cert, CA: id.ca}
}

// certificateValidity returns the certificate's validity period.
func (id *Identity) certificateValidity() (from, until time.Time) {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.cert.Leaf.NotBefore, id.cert.Leaf.NotAfter
}

// fingerprint returns a string that differs between copies of the identity and between boots of the machine.
func (id *Identity) fingerprint(bootID string) (string, error) {
	info, err := os.Stat(filepath.Join(id.dir, keyFile))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(bootID + "\x00" + fileIdentity(info)))
	return hex.EncodeToString(sum[:]), nil
}

// Close releases the data directory.
func (id *Identity) Close() error { return id.lock.Close() }
