package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
)

// Join requests the host's first certificate. The token contains the fingerprint of the portal's authority. Join checks
// it on this connection and again on the authority in the answer, so that no other server gets the token's secret.
func Join(ctx context.Context, portal, token string, in JoinRequest) (JoinAnswer, error) {
	var out JoinAnswer
	fingerprint, err := tokenFingerprint(token)
	if err != nil {
		return out, err
	}
	u, err := parsePortal(portal)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := (&Client{portal: u}).request(ctx, PathJoin, in)
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	once := newConnPool(u, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // verifyPinnedAuthority checks the fingerprint instead of a CA pool
		VerifyConnection:   verifyPinnedAuthority(fingerprint, u.Hostname()),
		NextProtos:         []string{"http/1.1"},
	})
	defer once.closeAllWhenIdle()
	answer, err := once.send(ctx, req, false)
	if err == nil {
		err = answer.decodeInto(&out)
	}
	if err != nil {
		return out, err
	}
	block, _ := pem.Decode([]byte(out.CA))
	if block == nil {
		return out, errors.New("the portal's answer contains no certificate of the portal's authority")
	}
	if sum := sha256.Sum256(block.Bytes); !bytes.Equal(sum[:], fingerprint) {
		return out, errors.New("the authority in the portal's answer is not the one that the join token names")
	}
	return out, nil
}
