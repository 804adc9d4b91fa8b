import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.Channel;
import java.util.ConcurrentModificationException;
import java.util.List;

/** Listens on the loopback port that is given, 0 for any, and prints the one that it has got. */
public class Main {
    public static void main(String[] arguments) {
        MongoServer server = new MongoServer(new Backend().version(new Version()));
        server.bind("127.0.0.1", Integer.parseInt(arguments[0]));
        System.out.println(server.getLocalAddress().getPort());
    }

    /** The library knows `hello` by its older name only, and fails to read while an index is being added. */
    private static class Backend extends MemoryBackend {
        @Override
        public Document handleCommand(Channel channel, String database, String command, Document query) {
            while (true) {
                try {
                    return super.handleCommand(channel, database, command.equals("hello") ? "ismaster" : command, query);
                } catch (ConcurrentModificationException error) {
                    if (!command.equals("find")) {
                        throw error;
                    }
                }
            }
        }
    }

    /** The oldest that PyMongo talks to; the library's own versions say that they are older. */
    private static class Version implements MongoVersion {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(5, 0, 0);
        }

        @Override
        public int getWireVersion() {
            return 13;
        }
    }
}
