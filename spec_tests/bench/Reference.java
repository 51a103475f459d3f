import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableCommitImpl;

/**
 * What only the reference engine can do to a table: compact it, and mark rows of an append table as deleted.
 *
 * <pre>
 * java -cp "lib/*" Reference.java compact WAREHOUSE DATABASE TABLE full|minor
 * java -cp "lib/*" Reference.java delete  WAREHOUSE DATABASE TABLE POSITIONS    (lines "file name, tab, row number")
 * java -cp "lib/*" Reference.java files   WAREHOUSE DATABASE TABLE
 * </pre>
 *
 * Prints the paths of the live data files, one a line.
 */
final class Reference {
    public static void main(String[] arguments) throws Exception {
        Options options = new Options();
        options.set("warehouse", arguments[1]);
        FileStoreTable table = (FileStoreTable) CatalogFactory.createCatalog(CatalogContext.create(options))
                .getTable(Identifier.create(arguments[2], arguments[3]));
        if (arguments[0].equals("compact")) {
            compact(table.copy(Map.of("write-only", "false")), arguments[4].equals("full"));
        } else if (arguments[0].equals("delete")) {
            delete(table, Path.of(arguments[4]));
        }
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            System.out.println(table.store().pathFactory().bucketPath(entry.partition(), entry.bucket()).toUri().getPath() + "/" + entry.fileName());
        }
    }

    private static void compact(FileStoreTable table, boolean full) throws Exception {
        StreamWriteBuilder builder = table.newStreamWriteBuilder();
        try (StreamTableWrite write = builder.newWrite(); StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            Set<List<Object>> buckets = new HashSet<>();
            for (ManifestEntry entry : table.store().newScan().plan().files()) {
                if (buckets.add(List.of(entry.partition(), entry.bucket()))) {
                    write.compact(entry.partition(), entry.bucket(), full);
                }
            }
            commit.commit(1L, write.prepareCommit(true, 1L));
        }
    }

    private static void delete(FileStoreTable table, Path positions) throws Exception {
        Map<String, BitmapDeletionVector> deleted = new HashMap<>();
        for (String line : Files.readAllLines(positions)) {
            String[] parts = line.split("\t");
            deleted.computeIfAbsent(parts[0], name -> new BitmapDeletionVector()).delete(Long.parseLong(parts[1]));
        }
        List<CommitMessage> messages = new ArrayList<>();
        Map<Object, AppendDeleteFileMaintainer> maintainers = new HashMap<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            if (deleted.containsKey(entry.fileName())) {
                maintainers
                        .computeIfAbsent(
                                entry.partition(),
                                partition -> BaseAppendDeleteFileMaintainer.forUnawareAppend(
                                        table.store().newIndexFileHandler(), table.snapshotManager().latestSnapshot(), entry.partition()))
                        .notifyNewDeletionVector(entry.fileName(), deleted.get(entry.fileName()));
            }
        }
        for (AppendDeleteFileMaintainer maintainer : maintainers.values()) {
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> removed = new ArrayList<>();
            for (IndexManifestEntry entry : maintainer.persist()) {
                (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
            }
            DataIncrement change = new DataIncrement(List.of(), List.of(), List.of(), added, removed);
            messages.add(new CommitMessageImpl(maintainer.getPartition(), maintainer.getBucket(), null, change, CompactIncrement.emptyIncrement()));
        }
        try (TableCommitImpl commit = table.newCommit("bench")) {
            commit.commit(messages);
        }
    }
}
