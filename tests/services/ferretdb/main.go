// FerretDB for the tests: MongoDB's wire protocol over SQLite files in a directory, on a loopback port.
//
// FerretDB 1.x updates a document in two steps, a read and a write, so two clients can both succeed with the same
// compare-and-set; MongoDB promises that they can't. In front of it stands a relay that lets one command through at a
// time, and so keeps that promise. Once it listens it prints two ports, the relay's and FerretDB's own.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

var oneAtATime sync.Mutex

func main() {
	port := flag.String("port", "0", "loopback port to listen on")
	directory := flag.String("directory", "", "directory of the databases")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	database, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler:   "sqlite",
		SQLiteURL: "file:" + *directory + "/?_pragma=synchronous(off)",
	})
	if err != nil {
		log.Fatal(err)
	}
	go serve(*port, database)
	_ = database.Run(ctx)
}

func serve(port string, database *ferretdb.FerretDB) {
	address, err := url.Parse(database.MongoDBURI())
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port, address.Port())
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go relay(client, address.Host)
	}
}

func relay(client net.Conn, address string) {
	defer client.Close()
	database, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer database.Close()
	for {
		command, err := message(client)
		if err != nil {
			return
		}
		reply, err := answer(database, command)
		if err != nil {
			return
		}
		if _, err = client.Write(reply); err != nil {
			return
		}
	}
}

func answer(database net.Conn, command []byte) ([]byte, error) {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	if _, err := database.Write(command); err != nil {
		return nil, err
	}
	return message(database)
}

// message reads one message of the wire protocol: it begins with its length, which counts itself.
func message(connection net.Conn) ([]byte, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(connection, length); err != nil {
		return nil, err
	}
	whole := make([]byte, binary.LittleEndian.Uint32(length))
	copy(whole, length)
	_, err := io.ReadFull(connection, whole[4:])
	return whole, err
}
